// seams/clock/clock.hpp: the seam to time. Implementations: monotonic_clock (real), sim::clock.
#pragma once

#include <cstdint>

namespace tanada::seams {

struct clock {
  // Monotonic, nanoseconds from an arbitrary start, never 0. The same time base as simt::now_ns()
  // on the host executor.
  virtual uint64_t now_ns() noexcept = 0;

  // Gives up the processor for about `duration_ns`; may return early. Simulated clocks advance
  // instead.
  virtual void sleep_ns(uint64_t duration_ns) noexcept = 0;

  // Lets other threads run. The programs of a simulation share a thread, so its clock does nothing.
  virtual void yield() noexcept {}

  // Nanoseconds since 1970, UTC, by the machine's clock. Jumps when the clock is set. A twin
  // without another time returns now_ns().
  virtual uint64_t wall_ns() noexcept {
    return now_ns();
  }

 protected:
  ~clock() = default;
};

// The process's CLOCK_MONOTONIC. One object, valid for the life of the process.
clock &monotonic_clock() noexcept;

// now + timeout without overflow. TND_NO_DEADLINE stays TND_NO_DEADLINE.
uint64_t deadline_after(uint64_t now_ns, uint64_t timeout_ns) noexcept;

}  // namespace tanada::seams
