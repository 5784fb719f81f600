// executor/event.cc: the two events that kernels and their host share, and how to wait for one.
#include "executor/event.hpp"

#include <chrono>

#include "core/base/assert.hpp"
#include <tanada/device/detail/simt/host/executor.hpp>

namespace tanada::simt::host {

void event::signal() noexcept {
  signal_count_.fetch_add(1);
  if (sleeper_count_.load() == 0)
    return;
  lock_guard const lock{mutex_};
  wake_.notify_all();
}

void event::wait(u32 ticket, u64 timeout_ns) noexcept {
  unique_lock lock{mutex_};
  sleeper_count_.fetch_add(1);
  (void)wake_.wait_for(
      lock, std::chrono::nanoseconds(timeout_ns), [&] { return signal_count_.load() != ticket; });
  u32 const sleepers_before = sleeper_count_.fetch_sub(1);
  TND_ASSERT(sleepers_before != 0);
}

// Never destroyed: kernels may run while the process exits.
event &host_event() noexcept {
  static event &instance = *new event;
  return instance;
}

event &kernel_event() noexcept {
  static event &instance = *new event;
  return instance;
}

void wake_host() noexcept {
  host_event().signal();
}

void wake_kernels() noexcept {
  kernel_event().signal();
}

}  // namespace tanada::simt::host
