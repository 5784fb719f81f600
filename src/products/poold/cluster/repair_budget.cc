// The bandwidth of comparisons.
#include "products/poold/cluster/repair_budget.hpp"

#include <algorithm>

#include "core/base/assert.hpp"

namespace tanada::poold {

namespace {

constexpr double burst_s = 0.1;  // what is not used in this time is lost

}  // namespace

void repair_budget::note_change(uint64_t now_ns) {
  lock_guard lock{mutex_};
  changed_ns_ = std::max(now_ns, uint64_t{1});
}

void repair_budget::refill(uint64_t now_ns) {
  TND_ASSERT(mutex_.is_held());
  uint64_t const bandwidth = bandwidth_ != 0 ? bandwidth_ : shared_bandwidth;
  double const elapsed_s = double(now_ns - std::min(now_ns, refilled_ns_)) / 1e9;
  refilled_ns_ = now_ns;
  available_size_ =
      std::min(available_size_ + elapsed_s * double(bandwidth), burst_s * double(bandwidth));
}

bool repair_budget::is_available(uint64_t now_ns) {
  lock_guard lock{mutex_};
  refill(now_ns);
  bool const is_idle = changed_ns_ == 0 || now_ns >= changed_ns_ + idle_after_ns;
  return available_size_ > 0 || (bandwidth_ == 0 && is_idle);
}

void repair_budget::spend(uint64_t size) {
  lock_guard lock{mutex_};
  spent_size_ += size;
  // The debt of a time without a limit is not paid later.
  available_size_ = std::max(available_size_ - double(size), -double(size));
}

uint64_t repair_budget::spent_size() const {
  lock_guard lock{mutex_};
  return spent_size_;
}

}  // namespace tanada::poold
