// tests/e2e/pool/clock_shim.hpp: clocks that jump, for one process: linked before the C library, or
// preloaded.
//
// It replaces clock_gettime, gettimeofday and time. Waits inside the kernel use the kernel's
// clocks.
#pragma once

#include <atomic>
#include <cstdint>

namespace tanada::test {

// In a file that the process and the controlling test both map.
struct clock_offsets {
  std::atomic<int64_t> wall_ns{0}, monotonic_ns{0};
};

}  // namespace tanada::test

extern "C" {
// Uses the offsets of this file from now on; a preloaded shim finds its path in
// TND_TEST_CLOCK_FILE. Null: it cannot be mapped.
__attribute__((visibility("default"))) tanada::test::clock_offsets *tnd_test_clock_use(
    const char *path);
}
