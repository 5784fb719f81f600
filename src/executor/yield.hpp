// executor/yield.hpp: yields to other threads while that returns faster than a sleep.
#pragma once

#include <sched.h>

#include <chrono>

namespace tanada::simt::host {

/// Yields of one thread. While other programs compute, a yield lasts until each of them has had its
/// time slice, which takes milliseconds. A sleep of some microseconds returns after that time.
class yielder {
 public:
  /// Yields and returns true. Returns false without yielding if a recent yield was slow: the caller
  /// should sleep instead.
  bool yield() noexcept {
    auto const begin = clock::now();
    if (begin < oversubscribed_until_)
      return false;
    sched_yield();
    auto const end = clock::now();
    if (end - begin > quick_yield_max)
      oversubscribed_until_ = end + oversubscribed_time;
    return true;
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds quick_yield_max{200};
  static constexpr std::chrono::milliseconds oversubscribed_time{100};
  clock::time_point oversubscribed_until_{};
};

}  // namespace tanada::simt::host
