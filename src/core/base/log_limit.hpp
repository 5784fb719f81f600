// core/base/log_limit.hpp: rate limit for log lines that a peer can trigger.
#pragma once

#include <cstdint>

namespace tanada {

// Admits the first lines, and after that one line for each interval, which should report how many
// were suppressed. Not thread-safe.
class log_limit {
 public:
  static constexpr uint64_t interval_ns = 10'000'000'000;

  explicit log_limit(uint32_t first_count = 20) noexcept : remaining_{first_count} {}

  // False: the line must be suppressed, and has been counted.
  bool admit(uint64_t now_ns) noexcept {
    if (remaining_ == 0 && now_ns < next_ns_) {
      suppressed_count_++;
      return false;
    }
    if (remaining_ != 0)
      remaining_--;
    next_ns_ = now_ns + interval_ns;
    return true;
  }

  // Returns the number of lines suppressed since the last call.
  uint64_t take_suppressed_count() noexcept {
    uint64_t const count = suppressed_count_;
    suppressed_count_ = 0;
    return count;
  }

 private:
  uint32_t remaining_;
  uint64_t next_ns_ = 0, suppressed_count_ = 0;
};

}  // namespace tanada
