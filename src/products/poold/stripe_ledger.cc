// The striped objects of a server.
#include "products/poold/stripe_ledger.hpp"

#include "core/base/assert.hpp"

namespace tanada::poold {

namespace {

constexpr size_t pending_count_max = 65536;

}  // namespace

void stripe_ledger::set_wake(std::function<void()> wake) {
  lock_guard lock{mutex_};
  wake_ = std::move(wake);
}

void stripe_ledger::wake() const {
  TND_ASSERT(mutex_.is_held());
  if (wake_)
    wake_();
}

void stripe_ledger::add(const striped_key &key) {
  lock_guard lock{mutex_};
  counts_[key]++;
}

void stripe_ledger::remove(const striped_key &key) {
  lock_guard lock{mutex_};
  auto const it = counts_.find(key);
  TND_ASSERT(it != counts_.end() && it->second > 0);
  if (--it->second > 0)
    return;
  counts_.erase(it);
  if (dropped_.size() < pending_count_max)
    dropped_.push_back(key);
  wake();
}

bool stripe_ledger::contains(const striped_key &key) const {
  lock_guard lock{mutex_};
  return counts_.contains(key);
}

std::vector<striped_key> stripe_ledger::take_dropped() {
  lock_guard lock{mutex_};
  return std::exchange(dropped_, {});
}

void stripe_ledger::add_suspect(const striped_key &key) {
  lock_guard lock{mutex_};
  if (suspects_.size() < pending_count_max)
    suspects_.insert(key);
  wake();
}

std::set<striped_key> stripe_ledger::take_suspects() {
  lock_guard lock{mutex_};
  return std::exchange(suspects_, {});
}

}  // namespace tanada::poold
