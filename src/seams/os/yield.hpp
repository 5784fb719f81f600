// seams/os/yield.hpp: yields the processor to threads of this and other programs.
#pragma once

namespace tanada::seams {

/// Yields the processor while that is the fastest way to continue. False, without effect: the
/// calling thread's last yields were slow, since other programs compute, and it should sleep
/// instead (executor/yield.hpp).
bool thread_yield() noexcept;

}  // namespace tanada::seams
