// seams/alarm/shared_alarm.hpp: sleeping in memory that processes share, until one of them wakes
// the sleepers.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "seams/alarm/alarm.hpp"

namespace tanada::seams {

// What a sleeper waits for, in numbers that all users of an alarm agree on: [begin, end).
struct alarm_range {
  uint64_t begin = 0, end = ~uint64_t{0};
};

// Lies in shared memory, initially zero. A process that changes what others may wait for calls
// wake() afterwards. That costs a load while no process sleeps, and no system call when the sleeper
// waits for something else. A wake-up may be missed when it comes as the sleep begins, or when
// several sleeps begin at once. Sleeps are therefore short, and repeated.
class alignas(64) shared_alarm {
 public:
  // Sleeps until another process wakes `range`, or for timeout_ns. is_ready() is called before the
  // sleep, and after one that ended by its timeout. All users of the object pass alarms of one
  // implementation.
  template <class Ready>
  void sleep(Ready &&is_ready,
             uint64_t timeout_ns,
             alarm_range range = {},
             alarm &system = futex_alarm()) noexcept {
    bool const is_only = sleepers_.fetch_add(1) == 0;
    begin_.store(is_only ? range.begin : 0, std::memory_order_relaxed);
    end_.store(is_only ? range.end : ~uint64_t{0});
    uint32_t const wakes_before = wake_count_.load();
    if (!is_ready() && !system.wait(wake_count_, wakes_before, timeout_ns) && is_ready())
      system.note_lost_wakeup();
    sleepers_.fetch_sub(1);
  }

  bool has_sleepers() const noexcept {
    return sleepers_.load(std::memory_order_relaxed) != 0;
  }

  // Wakes the sleepers that wait for a part of `range`, which has changed.
  void wake(alarm_range range, alarm &system = futex_alarm()) noexcept {
    if (has_sleepers() && range.begin < end_.load(std::memory_order_relaxed) &&
        begin_.load(std::memory_order_relaxed) < range.end) {
      wake_count_.fetch_add(1);
      system.wake_all(wake_count_);
    }
  }

 private:
  std::atomic<uint32_t> sleepers_{0}, wake_count_{0};
  std::atomic<uint64_t> begin_{0}, end_{0};
};
static_assert(sizeof(shared_alarm) == 64 && std::is_standard_layout_v<shared_alarm>);
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace tanada::seams
