// products/o2g/backoff.hpp: the backoff between fruitless polls.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tanada::o2g {

// A caller that polls without a pause is waiting. It spins for a while and then sleeps in the
// kernel. A message wakes it. Any other event that it waits for is noticed late by at most an
// eighth of the wait. A sleeping processor takes longer to wake than most messages take to arrive,
// so the caller spins long, unless other threads want the processor. Callers on several threads
// share one backoff: a lost update costs a sleep or a spin.
class backoff {
 public:
  static constexpr uint64_t spin_ns = 50'000, spin_ns_uncontended = 10'000'000;
  // Pauses of the system itself are no longer than system_pause_ns, an eighth of the last sleep, or
  // a 64th of the wait. After a longer pause between two polls the caller did other work, unless it
  // waited for a processor. That is checked only for pauses from checked_pause_ns on, because the
  // check is expensive.
  static constexpr uint64_t system_pause_ns = 5'000, checked_pause_ns = 50'000;

  static_assert(spin_ns < spin_ns_uncontended && system_pause_ns < checked_pause_ns);

  void record_work() noexcept {
    wait_start_ns_.store(0, std::memory_order_relaxed);
    work_count_.fetch_add(1, std::memory_order_relaxed);
  }

  // Records a fruitless poll at `now_ns`. Returns the nanoseconds to sleep; 0: do not sleep.
  // `processors`: see seams/os/contention.hpp.
  template <class Processors>
  uint64_t record_empty_poll(uint64_t now_ns,
                             uint64_t sleep_ns_max,
                             Processors processors) noexcept {
    uint64_t const wait_start_ns = wait_start_ns_.load(std::memory_order_relaxed);
    uint64_t const work_count = work_count_.load(std::memory_order_relaxed);
    bool const others_found_work =
        seen_work_count_.exchange(work_count, std::memory_order_relaxed) != work_count;
    bool const is_new =
        wait_start_ns == 0 || others_found_work || did_other_work(now_ns, processors);
    uint64_t const waited_ns = is_new ? 0 : now_ns - wait_start_ns;
    bool const should_spin = waited_ns < spin_ns || (waited_ns < spin_ns_uncontended &&
                                                     !processors.is_oversubscribed(now_ns));
    uint64_t const sleep_ns = should_spin ? 0 : std::min(waited_ns / 8, sleep_ns_max);
    if (is_new)
      wait_start_ns_.store(now_ns, std::memory_order_relaxed);
    last_sleep_ns_.store(sleep_ns, std::memory_order_relaxed);
    record_poll_end(now_ns);
    return sleep_ns;
  }

  // Records the end of a poll.
  void record_poll_end(uint64_t now_ns) noexcept {
    last_poll_ns_.store(now_ns, std::memory_order_relaxed);
  }

 private:
  template <class Processors>
  bool did_other_work(uint64_t now_ns, Processors processors) const noexcept {
    uint64_t const last_poll_ns = last_poll_ns_.load(std::memory_order_relaxed);
    uint64_t const pause = now_ns > last_poll_ns ? now_ns - last_poll_ns : 0;
    uint64_t const wait_start_ns = wait_start_ns_.load(std::memory_order_relaxed);
    uint64_t const waited_ns = last_poll_ns > wait_start_ns ? last_poll_ns - wait_start_ns : 0;
    if (pause <=
        std::max(
            {system_pause_ns, last_sleep_ns_.load(std::memory_order_relaxed) / 8, waited_ns / 64}))
      return false;
    return pause < checked_pause_ns || processors.waited_ns() < pause / 4 * 3;
  }

  // Shared by the process: Open MPI polls one engine for messages and another for windows in turn.
  // It must not sleep in one of them while the other has work.
  static inline std::atomic<uint64_t> work_count_ = 0;
  std::atomic<uint64_t> wait_start_ns_ = 0, last_poll_ns_ = 0, last_sleep_ns_ = 0,
                        seen_work_count_ = 0;
};

}  // namespace tanada::o2g
