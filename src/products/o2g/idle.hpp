// products/o2g/idle.hpp: how long a caller that polls in vain should sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tanada::o2g {

// A caller that polls without a pause waits. It spins for a while, and then sleeps in the kernel:
// what comes wakes it, and what else it may be waiting for is late by an eighth of the wait at
// most. A processor that sleeps takes longer to wake than most messages take to come, so the
// spinning is long, unless others want the processor. Callers of several threads share it: a lost
// update costs a sleep or a spin.
class idle_rule {
 public:
  static constexpr uint64_t spin_ns = 50'000, spin_ns_alone = 10'000'000;
  // Whoever comes back later than this, than an eighth of the last sleep and than a 64th of the
  // wait, which are the system's own pauses, did something else in between, unless it waited for a
  // processor. Only of a pause worth it is that asked.
  static constexpr uint64_t pause_ns = 5'000, asked_pause_ns = 50'000;

  void found() noexcept {
    since_ns_.store(0, std::memory_order_relaxed);
    finds_.fetch_add(1, std::memory_order_relaxed);
  }

  // A poll at `now_ns` found nothing: nanoseconds to sleep, 0: none. `processors`: see
  // seams/os/contention.hpp.
  template <class Processors>
  uint64_t vain(uint64_t now_ns, uint64_t sleep_ns_max, Processors processors) noexcept {
    uint64_t const since_ns = since_ns_.load(std::memory_order_relaxed);
    uint64_t const finds = finds_.load(std::memory_order_relaxed);
    bool const others_found = seen_finds_.exchange(finds, std::memory_order_relaxed) != finds;
    bool const is_new = since_ns == 0 || others_found || was_away(now_ns, processors);
    uint64_t const waited_ns = is_new ? 0 : now_ns - since_ns;
    bool const spins =
        waited_ns < spin_ns || (waited_ns < spin_ns_alone && !processors.are_short(now_ns));
    uint64_t const sleep_ns = spins ? 0 : std::min(waited_ns / 8, sleep_ns_max);
    if (is_new)
      since_ns_.store(now_ns, std::memory_order_relaxed);
    slept_ns_.store(sleep_ns, std::memory_order_relaxed);
    left(now_ns);
    return sleep_ns;
  }

  // A poll ended.
  void left(uint64_t now_ns) noexcept {
    last_ns_.store(now_ns, std::memory_order_relaxed);
  }

 private:
  template <class Processors>
  bool was_away(uint64_t now_ns, Processors processors) const noexcept {
    uint64_t const last_ns = last_ns_.load(std::memory_order_relaxed);
    uint64_t const pause = now_ns > last_ns ? now_ns - last_ns : 0;
    uint64_t const since_ns = since_ns_.load(std::memory_order_relaxed);
    uint64_t const waited_ns = last_ns > since_ns ? last_ns - since_ns : 0;
    if (pause <=
        std::max({pause_ns, slept_ns_.load(std::memory_order_relaxed) / 8, waited_ns / 64}))
      return false;
    return pause < asked_pause_ns || processors.waited_ns() < pause / 4 * 3;
  }

  // Of the process: who polls several engines in turn, as Open MPI does for messages and for
  // windows, does not sleep for one of them while something comes to another.
  static inline std::atomic<uint64_t> finds_ = 0;
  std::atomic<uint64_t> since_ns_ = 0, last_ns_ = 0, slept_ns_ = 0, seen_finds_ = 0;
};

}  // namespace tanada::o2g
