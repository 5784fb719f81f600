// executor/yield.hpp: giving way to other threads, as long as that is the quickest way back.
#pragma once

#include <sched.h>

#include <chrono>

namespace tanada::simt::host {

/// Yields of one thread. Where other programs compute, a yield lasts until each of them has had its
/// slice, milliseconds in all, while a sleep of some microseconds ends after these microseconds.
class yielder {
 public:
  /// False, and nothing was done: a yield was slow not long ago, and the caller had better sleep.
  bool yield() noexcept {
    auto const begin = clock::now();
    if (begin < crowded_until_)
      return false;
    sched_yield();
    auto const end = clock::now();
    if (end - begin > quick)
      crowded_until_ = end + crowded_time;
    return true;
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds quick{200};
  static constexpr std::chrono::milliseconds crowded_time{100};
  clock::time_point crowded_until_{};
};

}  // namespace tanada::simt::host
