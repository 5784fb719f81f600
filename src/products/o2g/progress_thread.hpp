// products/o2g/progress_thread.hpp: the thread that makes progress while the program does not call.
// A program that calls the engine makes progress itself. After a tick without a call, the thread
// takes over and sleeps in the kernel until there is work.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::o2g {

// While the program calls, the thread wakes once in a tick, and a call costs one store. The tick
// grows up to eightfold while the program keeps calling. If callers sleep in the engine for long,
// the thread rests until one of them has found work.
class progress_thread {
 public:
  ~progress_thread() {
    stop();
  }

  // `work` makes progress and waits for more work. It returns false if a caller is making progress.
  // `interrupt` ends such a wait. no_memory: the system cannot create a thread.
  status start(uint64_t tick_ns, std::function<bool()> work, std::function<void()> interrupt);
  void stop();

  // Records a call. A lost count does no harm.
  void visit() noexcept {
    visit_count_.store(visit_count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  uint64_t visit_count() const noexcept {
    return visit_count_.load(std::memory_order_relaxed);
  }

  // Called before and after a caller's sleep in the engine.
  void begin_sleep() noexcept {
    sleeper_count_.fetch_add(1);
  }
  void end_sleep() noexcept {
    visit();
    uint32_t const count_before = sleeper_count_.fetch_sub(1);
    TND_ASSERT(count_before != 0);
  }
  // A caller has found work: ends a rest.
  void resume() noexcept;

  // Whether the thread makes progress. It may be asleep in `work`.
  bool is_driving() const noexcept {
    return is_driving_.load();
  }

  bool has_sleepers() const noexcept {
    return sleeper_count_.load() != 0;
  }

 private:
  void run();
  void wait_for_tick(uint64_t tick_ns, bool should_rest);

  std::atomic<uint64_t> visit_count_ = 0;
  std::atomic<uint32_t> sleeper_count_ = 0;
  std::atomic<bool> is_stopping_ = false, is_driving_ = false, is_resting_ = false;
  mutex mutex_;
  condition_variable changed_;
  std::thread thread_;
  int const owner_pid_ = getpid();
  uint64_t tick_ns_ = 0;
  std::function<bool()> work_;
  std::function<void()> interrupt_;
};

}  // namespace tanada::o2g
