// products/poold/log/group_gate.hpp: when a group of transactions that share a sync begins.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tanada::pool {

// Clients that wait for their commits send the next ones as soon as a group has ended. A group
// that began with the first of these would leave the others to another sync. So a group waits
// until as many transactions are there as were on their way when the previous one ended, but at
// most for half of that group's duration after its end, and only while transactions arrive. Not
// thread-safe. Times are of one monotonic clock.
class group_gate {
 public:
  // Whether a group of the transactions that wait begins now. There is no group under way.
  bool may_begin(uint64_t now_ns, size_t waiting_count) {
    if (waiting_count != seen_count_) {
      seen_count_ = waiting_count;
      seen_ns_ = now_ns;
    }
    uint64_t const quiet_ns = std::max(quiet_min_ns, duration_ns_ / 8);
    bool const is_late = now_ns - std::min(now_ns, end_ns_) >= duration_ns_ / 2;
    bool const is_quiet = now_ns - std::max(seen_ns_, end_ns_) >= quiet_ns;
    return waiting_count >= expected_count_ || is_late || is_quiet;
  }
  void begin(uint64_t now_ns) {
    begin_ns_ = now_ns;
  }
  // The group has ended. `pending_count` transactions were in it or wait.
  void end(uint64_t now_ns, size_t pending_count) {
    expected_count_ = pending_count;
    seen_count_ = 0;
    seen_ns_ = now_ns;
    end_ns_ = now_ns;
    duration_ns_ = now_ns - std::min(now_ns, begin_ns_);
  }

 private:
  static constexpr uint64_t quiet_min_ns = 100'000;

  size_t expected_count_ = 0, seen_count_ = 0;
  uint64_t begin_ns_ = 0, end_ns_ = 0, seen_ns_ = 0, duration_ns_ = 0;
};

}  // namespace tanada::pool
