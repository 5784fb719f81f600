// seams/alarm/alarm.hpp: the seam to sleeping until another thread or process wakes the sleeper.
// Implementations: futex_alarm() (real), sim::alarm.
#pragma once

#include <atomic>
#include <cstdint>

namespace tanada::seams {

// Thread safety: all calls, from any thread. Sleepers and the threads that wake them use alarms of
// one implementation.
struct alarm {
  // Sleeps while `word` has the value `expected`, for timeout_ns at most. Returns false when the
  // time passed without a wake-up, and true otherwise. The value is compared when the sleep begins,
  // so a wake-up that changed the word before is not missed. It may return early, with true.
  virtual bool wait(std::atomic<uint32_t> &word,
                    uint32_t expected,
                    uint64_t timeout_ns) noexcept = 0;

  // Wakes all sleepers on `word`, which the caller has changed.
  virtual void wake_all(std::atomic<uint32_t> &word) noexcept = 0;

  // Reports that a sleep ended by its timeout although its condition held: a wake-up was lost. A
  // twin counts these.
  virtual void note_lost_wakeup() noexcept {}

 protected:
  ~alarm() = default;
};

// Words may lie in memory that processes share. One object, valid for the life of the process.
alarm &futex_alarm() noexcept;

}  // namespace tanada::seams
