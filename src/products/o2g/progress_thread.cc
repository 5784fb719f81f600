// The thread that makes progress while the program does not call the engine.

#include "products/o2g/progress_thread.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::o2g {

namespace {
// A wake-up takes the processor from another thread, so the thread wakes less often while the
// program calls.
constexpr uint64_t busy_factor = 8, rest_ns = 250'000'000;
constexpr uint32_t asleep_ticks_max = 64;
}  // namespace

status progress_thread::start(uint64_t tick_ns,
                              std::function<bool()> work,
                              std::function<void()> interrupt) {
  TND_ASSERT(!thread_.joinable() && work && interrupt);
  tick_ns_ = tick_ns;
  work_ = std::move(work);
  interrupt_ = std::move(interrupt);
  seams::signals_blocked const blocked;
  try {
    thread_ = std::thread{[this] {
      run();
    }};
  } catch (const std::system_error &error) {
    return fail(
        status::no_memory,
        "o2g: cannot create the progress thread: {}. Raise the limit on threads (ulimit -u)",
        error.what());
  }
  return status::ok;
}

void progress_thread::stop() {
  if (!thread_.joinable())
    return;
  if (owner_pid_ != getpid()) {  // a forked process does not have the thread
    thread_.detach();
    return;
  }
  {
    lock_guard const lock{mutex_};
    is_stopping_.store(true);
  }
  changed_.notify_all();
  interrupt_();
  thread_.join();
}

void progress_thread::resume() noexcept {
  if (!is_resting_.load())
    return;
  {
    lock_guard const lock{mutex_};
    is_resting_.store(false);
  }
  changed_.notify_all();
}

// Waits for a tick, or rests until resume() or the end of the rest.
void progress_thread::wait_for_tick(uint64_t tick_ns, bool should_rest) {
  unique_lock lock{mutex_};
  is_resting_.store(should_rest);
  changed_.wait_for(lock,
                    std::chrono::nanoseconds{should_rest ? std::max(rest_ns, tick_ns) : tick_ns},
                    [&] { return is_stopping_.load() || (should_rest && !is_resting_.load()); });
}

void progress_thread::run() {
  uint64_t tick_ns = tick_ns_;
  uint32_t asleep_ticks = 0;
  while (!is_stopping_.load()) {
    uint64_t const last_visits = visit_count_.load(std::memory_order_relaxed);
    bool const should_rest = asleep_ticks > asleep_ticks_max;
    wait_for_tick(tick_ns, should_rest);
    bool const is_resumed = should_rest && !is_resting_.exchange(false);
    if (has_sleepers() && !is_resumed) {
      tick_ns = tick_ns_;
      if (asleep_ticks <= asleep_ticks_max)
        asleep_ticks++;
      continue;
    }
    asleep_ticks = 0;
    if (has_sleepers())
      continue;
    if (visit_count_.load(std::memory_order_relaxed) != last_visits) {
      tick_ns = std::min(2 * tick_ns, busy_factor * tick_ns_);
      continue;
    }
    is_driving_.store(true);
    while (!is_stopping_.load() && visit_count_.load(std::memory_order_relaxed) == last_visits &&
           work_()) {}
    is_driving_.store(false);
    tick_ns = tick_ns_;
  }
}

}  // namespace tanada::o2g
