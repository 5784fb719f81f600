#include "products/poold/admission.hpp"

#include <algorithm>

namespace tanada::poold {
namespace {

constexpr uint32_t handshake_count_min = 256;
constexpr uint32_t handshake_share = 4, host_share = 2, local_share = 16;  // the reciprocals

uint32_t handshake_count_of(uint32_t count_max) {
  return std::max(count_max / handshake_share, std::min(count_max, handshake_count_min));
}

}  // namespace

admission::admission(uint32_t count_max)
    : count_max_{count_max},
      local_count_max_{count_max + count_max / local_share},
      handshake_count_max_{handshake_count_of(count_max)},
      host_count_max_{
          std::max(handshake_count_max_ / host_share, std::min(count_max, handshake_count_min))} {}

admission::verdict admission::admit(uint64_t id, const std::string &host, bool is_local) {
  std::lock_guard lock{mutex_};
  verdict made;
  bool const is_full = count_ >= (is_local ? local_count_max_ : count_max_);
  if (is_full && handshakes_.empty())
    return made;
  auto const known = hosts_.find(host);
  bool const has_share = known == hosts_.end() || known->second.size() < host_count_max_;
  if (!has_share)
    made.evicted = evict(host);
  else if (is_full || handshakes_.size() >= handshake_count_max_)
    made.evicted = evict(busiest());
  made.is_admitted = true;
  count_++;
  ids &all = hosts_[host];
  handshakes_[id] = {host, all.insert(all.end(), id)};
  return made;
}

bool admission::complete(uint64_t id) {
  std::lock_guard lock{mutex_};
  return forget(id);
}

void admission::leave(uint64_t id) {
  std::lock_guard lock{mutex_};
  (void)forget(id);
  count_--;
}

// Its connection counts until it leaves.
uint64_t admission::evict(const std::string &host) {
  uint64_t const oldest = hosts_.at(host).front();
  (void)forget(oldest);
  return oldest;
}

const std::string &admission::busiest() const {
  auto const smaller = [](auto const &left, auto const &right) {
    return left.second.size() < right.second.size();
  };
  return std::max_element(hosts_.begin(), hosts_.end(), smaller)->first;
}

bool admission::forget(uint64_t id) {
  auto const found = handshakes_.find(id);
  if (found == handshakes_.end())
    return false;
  auto const host = hosts_.find(found->second.host);
  host->second.erase(found->second.place);
  if (host->second.empty())
    hosts_.erase(host);
  handshakes_.erase(found);
  return true;
}

}  // namespace tanada::poold
