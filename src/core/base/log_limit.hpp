// core/base/log_limit.hpp: lines that somebody else can make us write are bounded.
#pragma once

#include <cstdint>

namespace tanada {

// The first lines are admitted, and then one an interval, which should say how
// many were not. Not thread-safe.
class log_limit {
 public:
  static constexpr uint64_t interval_ns = 10'000'000'000;

  explicit log_limit(uint32_t first_count = 20) noexcept : left_{first_count} {}

  // False: the line is left out, and counted.
  bool admits(uint64_t now_ns) noexcept {
    if (left_ == 0 && now_ns < next_ns_) {
      left_out_++;
      return false;
    }
    if (left_ != 0)
      left_--;
    next_ns_ = now_ns + interval_ns;
    return true;
  }

  // Lines that were left out since this was asked last.
  uint64_t take_left_out() noexcept {
    uint64_t const taken = left_out_;
    left_out_ = 0;
    return taken;
  }

 private:
  uint32_t left_;
  uint64_t next_ns_ = 0, left_out_ = 0;
};

}  // namespace tanada
