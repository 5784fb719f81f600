// seams/alarm/shared_alarm.hpp: sleeping in memory that processes share, until one of them rings.
#pragma once

#include <atomic>
#include <cstdint>

#include "seams/alarm/alarm.hpp"

namespace tanada::port {

// What a sleeper waits for, in numbers that sleepers and ringers agree on: [begin, end).
struct alarm_range {
  uint64_t begin = 0, end = ~uint64_t{0};
};

// Lies in shared memory, zeros at first. Who changes what others may wait for rings afterwards,
// which costs a load while nobody sleeps, and no call of the system when the sleeper waits for
// something else. A ring may be missed when it comes in the same moment as the sleep begins, or
// when several begin to sleep at once: sleeps are short, and repeated.
class alignas(64) shared_alarm {
 public:
  // Sleep until somebody rings for `what`, or for timeout_ns. is_ready() is called before the
  // sleep, and after one that ended by its time. All users of the object pass alarms of one
  // implementation.
  template <class Ready>
  void sleep(Ready &&is_ready, uint64_t timeout_ns, alarm_range what = {},
             alarm &system = futex_alarm()) noexcept {
    bool const is_only = sleepers_.fetch_add(1) == 0;
    begin_.store(is_only ? what.begin : 0, std::memory_order_relaxed);
    end_.store(is_only ? what.end : ~uint64_t{0});
    uint32_t const seen = rings_.load();
    if (!is_ready() && !system.wait(rings_, seen, timeout_ns) && is_ready())
      system.note_lost_wakeup();
    sleepers_.fetch_sub(1);
  }

  bool has_sleepers() const noexcept {
    return sleepers_.load(std::memory_order_relaxed) != 0;
  }

  // For what has changed.
  void ring(alarm_range what, alarm &system = futex_alarm()) noexcept {
    if (has_sleepers() && what.begin < end_.load(std::memory_order_relaxed) &&
        begin_.load(std::memory_order_relaxed) < what.end) {
      rings_.fetch_add(1);
      system.wake_all(rings_);
    }
  }

 private:
  std::atomic<uint32_t> sleepers_{0}, rings_{0};
  std::atomic<uint64_t> begin_{0}, end_{0};
};
static_assert(sizeof(shared_alarm) == 64 && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace tanada::port
