#include "products/o2g/attendance.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::o2g {

namespace {
// A wake-up takes the processor from somebody, so there are fewer while callers are about.
constexpr uint64_t busy_factor = 8, rest_ns = 250'000'000;
constexpr uint32_t asleep_ticks_max = 64;
}  // namespace

status attendance::start(uint64_t tick_ns, std::function<bool()> work,
                         std::function<void()> interrupt) {
  tick_ns_ = tick_ns;
  work_ = std::move(work);
  interrupt_ = std::move(interrupt);
  port::signals_blocked const blocked;
  try {
    thread_ = std::thread{[this] {
      run();
    }};
  } catch (const std::system_error &error) {
    return fail(status::no_memory, "o2g: no thread to receive while the program computes: %s",
                error.what());
  }
  return status::ok;
}

void attendance::stop() {
  if (!thread_.joinable())
    return;
  if (process_ != getpid()) {  // a forked process: there is no such thread in it
    thread_.detach();
    return;
  }
  {
    lock_guard const lock{mutex_};
    stopping_.store(true);
  }
  changed_.notify_all();
  interrupt_();
  thread_.join();
}

void attendance::stir() noexcept {
  if (!is_resting_.load())
    return;
  {
    lock_guard const lock{mutex_};
    is_resting_.store(false);
  }
  changed_.notify_all();
}

// Until a tick has passed, or a rest, or somebody stirs it.
void attendance::wait_for_tick(uint64_t tick_ns, bool rests) {
  unique_lock lock{mutex_};
  is_resting_.store(rests);
  changed_.wait_for(lock, std::chrono::nanoseconds{rests ? std::max(rest_ns, tick_ns) : tick_ns},
                    [&] { return stopping_.load() || (rests && !is_resting_.load()); });
}

void attendance::run() {
  uint64_t tick_ns = tick_ns_;
  uint32_t asleep_ticks = 0;
  while (!stopping_.load()) {
    uint64_t const seen = visits_.load(std::memory_order_relaxed);
    bool const rests = asleep_ticks > asleep_ticks_max;
    wait_for_tick(tick_ns, rests);
    bool const is_stirred = rests && !is_resting_.exchange(false);
    if (has_sleepers() && !is_stirred) {
      tick_ns = tick_ns_;
      if (asleep_ticks <= asleep_ticks_max)
        asleep_ticks++;
      continue;
    }
    asleep_ticks = 0;
    if (has_sleepers())
      continue;
    if (visits_.load(std::memory_order_relaxed) != seen) {
      tick_ns = std::min(2 * tick_ns, busy_factor * tick_ns_);
      continue;
    }
    has_taken_over_.store(true);
    while (!stopping_.load() && visits_.load(std::memory_order_relaxed) == seen && work_()) {}
    has_taken_over_.store(false);
    tick_ns = tick_ns_;
  }
}

}  // namespace tanada::o2g
