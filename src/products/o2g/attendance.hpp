// products/o2g/attendance.hpp: who drives. A program that calls the engine drives it itself; while
// it does not call for a tick, a thread takes over and sleeps in the kernel until something comes.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "core/base/mutex.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::o2g {

// The thread wakes once a tick while the program calls: a caller pays one store. The longer it has
// been calling the longer is a tick, up to 8 times. While callers sleep in the engine for long it
// rests, until one of them has found something.
class attendance {
 public:
  ~attendance() {
    stop();
  }

  // `work` waits, without a limit, for something to do, and does it, unless a caller is at it:
  // false. `interrupt` ends such a wait. no_memory: the system has no thread left.
  status start(uint64_t tick_ns, std::function<bool()> work, std::function<void()> interrupt);
  void stop();

  // A caller is here. Lost counts do no harm.
  void visit() noexcept {
    visits_.store(visits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  uint64_t visits() const noexcept {
    return visits_.load(std::memory_order_relaxed);
  }

  // Around a caller's sleep in the engine.
  void begin_sleep() noexcept {
    sleepers_.fetch_add(1);
  }
  void end_sleep() noexcept {
    visit();
    sleepers_.fetch_sub(1);
  }
  // A caller has found something.
  void stir() noexcept;

  // The thread is at work, and may be asleep in `work`.
  bool has_taken_over() const noexcept {
    return has_taken_over_.load();
  }

  bool has_sleepers() const noexcept {
    return sleepers_.load() != 0;
  }

 private:
  void run();
  void wait_for_tick(uint64_t tick_ns, bool rests);

  std::atomic<uint64_t> visits_ = 0;
  std::atomic<uint32_t> sleepers_ = 0;
  std::atomic<bool> stopping_ = false, has_taken_over_ = false, is_resting_ = false;
  mutex mutex_;
  condition_variable changed_;
  std::thread thread_;
  int const process_ = getpid();
  uint64_t tick_ns_ = 0;
  std::function<bool()> work_;
  std::function<void()> interrupt_;
};

}  // namespace tanada::o2g
