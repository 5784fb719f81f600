// executor/event.hpp: sleeping until another thread of the process signals.
#pragma once

#include <atomic>

#include "core/base/mutex.hpp"
#include <tanada/device/detail/simt/config.hpp>

namespace tanada::simt::host {

/// A sleeper takes a ticket, looks whether there is work, and waits with the ticket. Another thread
/// first stores the work and then signals. A signal after the ticket ends the wait, so none is
/// missed.
///
/// Thread safety: any thread.
class event {
 public:
  u32 ticket() const noexcept {
    return signal_count_.load();
  }
  /// Costs two accesses to memory while nobody sleeps. Wakes all sleepers.
  void signal() noexcept;
  /// Returns at once if signal() was called after ticket().
  void wait(u32 ticket, u64 timeout_ns) noexcept;

 private:
  // Sequentially consistent: a signaler that sees no sleeper has counted before the sleeper
  // compares.
  std::atomic<u32> signal_count_{0}, sleeper_count_{0};
  mutex mutex_;  // held by sleepers until they wait, and around the wake-up
  condition_variable wake_;
};

/// Signaled by kernels on the host executor, for threads that serve them.
event &host_event() noexcept;
/// Signaled by wake_kernels(), for blocks that wait for the host.
event &kernel_event() noexcept;

}  // namespace tanada::simt::host
