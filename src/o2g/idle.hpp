// o2g/idle.hpp: how long a caller that polls in vain should sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tanada::o2g {

// A caller that polls without a pause waits. It spins for a while, and then sleeps in the kernel: what comes wakes it, and
// what else it may be waiting for is late by an eighth of the wait at most. Callers of several threads share it: a lost update
// costs a sleep or a spin.
class idle_rule {
 public:
  static constexpr uint64_t spin_ns = 50'000;
  // Whoever comes back later than this, or than an eighth of the last sleep, did something else in between.
  static constexpr uint64_t pause_ns = 5'000;

  void found() noexcept { since_ns_.store(0, std::memory_order_relaxed); }

  // A poll at `now_ns` found nothing: nanoseconds to sleep, 0: none.
  uint64_t vain(uint64_t now_ns, uint64_t sleep_ns_max) noexcept {
    uint64_t const since_ns = since_ns_.load(std::memory_order_relaxed);
    uint64_t const allowed_ns = std::max(pause_ns, slept_ns_.load(std::memory_order_relaxed) / 8);
    bool const is_new = since_ns == 0 || now_ns > last_ns_.load(std::memory_order_relaxed) + allowed_ns;
    uint64_t const waited_ns = is_new ? 0 : now_ns - since_ns;
    uint64_t const sleep_ns = waited_ns < spin_ns ? 0 : std::min(waited_ns / 8, sleep_ns_max);
    if (is_new) since_ns_.store(now_ns, std::memory_order_relaxed);
    slept_ns_.store(sleep_ns, std::memory_order_relaxed);
    left(now_ns);
    return sleep_ns;
  }

  // A poll ended.
  void left(uint64_t now_ns) noexcept { last_ns_.store(now_ns, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> since_ns_ = 0, last_ns_ = 0, slept_ns_ = 0;
};

}  // namespace tanada::o2g
