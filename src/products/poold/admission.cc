// Admission of connections, with limits for handshakes by host.
#include "products/poold/admission.hpp"

#include <algorithm>

#include "core/base/assert.hpp"

namespace tanada::poold {
namespace {

constexpr uint32_t handshake_count_min = 256;
constexpr uint32_t handshake_share = 4, host_share = 2, local_share = 16;  // the reciprocals

uint32_t handshake_limit_for(uint32_t count_max) {
  return std::max(count_max / handshake_share, std::min(count_max, handshake_count_min));
}

}  // namespace

admission::admission(uint32_t count_max)
    : count_max_{count_max},
      local_count_max_{count_max + count_max / local_share},
      handshake_count_max_{handshake_limit_for(count_max)},
      host_count_max_{
          std::max(handshake_count_max_ / host_share, std::min(count_max, handshake_count_min))} {}

admission::decision admission::admit(uint64_t id, const std::string &host, bool is_local) {
  lock_guard lock{mutex_};
  decision answer;
  bool const is_full = count_ >= (is_local ? local_count_max_ : count_max_);
  if (is_full && handshakes_.empty())
    return answer;
  auto const known = hosts_.find(host);
  bool const has_share = known == hosts_.end() || known->second.size() < host_count_max_;
  if (!has_share)
    answer.evicted = evict(host);
  else if (is_full || handshakes_.size() >= handshake_count_max_)
    answer.evicted = evict(busiest_host());
  answer.is_admitted = true;
  count_++;
  ids &host_ids = hosts_[host];
  handshakes_[id] = {host, host_ids.insert(host_ids.end(), id)};
  return answer;
}

bool admission::complete(uint64_t id) {
  lock_guard lock{mutex_};
  return erase_handshake(id);
}

void admission::remove(uint64_t id) {
  lock_guard lock{mutex_};
  (void)erase_handshake(id);
  TND_ASSERT(count_ > 0);
  count_--;
}

// The evicted connection still counts until `remove()`.
uint64_t admission::evict(const std::string &host) {
  auto const entry = hosts_.find(host);
  TND_ASSERT(entry != hosts_.end() && !entry->second.empty());
  uint64_t const oldest = entry->second.front();
  (void)erase_handshake(oldest);
  return oldest;
}

const std::string &admission::busiest_host() const {
  TND_ASSERT(mutex_.is_held());
  TND_ASSERT(!hosts_.empty());
  auto const smaller = [](auto const &lhs, auto const &rhs) {
    return lhs.second.size() < rhs.second.size();
  };
  return std::max_element(hosts_.begin(), hosts_.end(), smaller)->first;
}

bool admission::erase_handshake(uint64_t id) {
  TND_ASSERT(mutex_.is_held());
  auto const it = handshakes_.find(id);
  if (it == handshakes_.end())
    return false;
  auto const host = hosts_.find(it->second.host);
  TND_ASSERT(host != hosts_.end());
  host->second.erase(it->second.position);
  if (host->second.empty())
    hosts_.erase(host);
  handshakes_.erase(it);
  return true;
}

}  // namespace tanada::poold
