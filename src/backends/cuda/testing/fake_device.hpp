// backends/cuda/testing/fake_device.hpp: a thread in place of the service kernel, and the functions
// of the CUDA runtime that its host side calls: for tests of the protocol without a GPU.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tanada::backends::cuda {

struct fake_device {
  std::atomic<bool> is_full{false};             // no kernel starts
  std::atomic<uint32_t> start_delay_max_us{0};  // maximum delay between a launch and its start
  std::atomic<uint32_t> step_delay_max_us{
      0};  // maximum delay at points where the other side may interleave
  std::atomic<uint64_t> runs{0}, canceled{0};  // runs that served, and runs that ended at once
  std::atomic<uint64_t> copies{0};             // by copy engines
  std::atomic<uint64_t> copies_ended_max{~uint64_t{0}};  // later copies count as in flight
  // Memory that counts as device memory.
  unsigned char *memory = nullptr;
  size_t memory_size = 0;
};
fake_device &fake();

// Delays the thread at the interleaving points of service.cc.
void fake_step();
#define TND_SERVICE_STEP() ::tanada::backends::cuda::fake_step()

}  // namespace tanada::backends::cuda
