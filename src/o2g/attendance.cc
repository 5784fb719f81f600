#include "o2g/attendance.hpp"


#include <chrono>
#include <system_error>

#include "base/log.hpp"
#include "port/store/signals_blocked.hpp"

namespace tanada::o2g {

namespace {
constexpr uint32_t quiet_ticks_max = 64;
constexpr uint64_t quiet_factor = 16;
}  // namespace

status attendance::start(uint64_t tick_ns, std::function<bool()> work, std::function<void()> interrupt) {
  tick_ns_ = tick_ns;
  work_ = std::move(work);
  interrupt_ = std::move(interrupt);
  port::signals_blocked const blocked;
  try {
    thread_ = std::thread{[this] { run(); }};
  } catch (const std::system_error &error) {
    return fail(status::no_memory, "o2g: no thread to receive while the program computes: %s", error.what());
  }
  return status::ok;
}

void attendance::stop() {
  if (!thread_.joinable()) return;
  if (process_ != getpid()) {  // a forked process: there is no such thread in it
    thread_.detach();
    return;
  }
  {
    std::lock_guard const lock{mutex_};
    stopping_.store(true);
  }
  changed_.notify_all();
  interrupt_();
  thread_.join();
}

void attendance::run() {
  uint32_t quiet_ticks = 0;
  while (!stopping_.load()) {
    uint64_t const seen = visits_.load(std::memory_order_relaxed);
    uint64_t const tick_ns = quiet_ticks < quiet_ticks_max ? tick_ns_ : tick_ns_ * quiet_factor;
    {
      std::unique_lock lock{mutex_};
      changed_.wait_for(lock, std::chrono::nanoseconds{tick_ns}, [this] { return stopping_.load(); });
    }
    if (has_sleepers()) {
      quiet_ticks++;
      continue;
    }
    if (visits_.load(std::memory_order_relaxed) != seen) {
      quiet_ticks = 0;
      continue;
    }
    has_taken_over_.store(true);
    while (!stopping_.load() && visits_.load(std::memory_order_relaxed) == seen && work_()) {
    }
    has_taken_over_.store(false);
  }
}

}  // namespace tanada::o2g
