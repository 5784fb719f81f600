// seams/os/yield.hpp: giving way to the threads of this and other programs.
#pragma once

namespace tanada::port {

/// Yields the processor while that is the quickest way back. False, and nothing was done: the
/// calling thread's last yields were slow, since other programs compute, and it had better sleep
/// (executor/yield.hpp).
bool thread_yield() noexcept;

}  // namespace tanada::port
