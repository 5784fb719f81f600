// backends/cuda/testing/fake_device.hpp: a thread in place of the service kernel, and the few
// functions of CUDA's runtime that its host side calls: for tests of who has a command, with no
// GPU.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tanada::port::cuda {

struct fake_device {
  std::atomic<bool> is_full{false};             // no kernel starts
  std::atomic<uint32_t> start_delay_max_us{0};  // between a launch and its start, up to so long
  std::atomic<uint32_t> step_delay_max_us{
      0};  // at the steps where somebody else may come in between
  std::atomic<uint64_t> runs{0}, canceled{0};  // kernels that served, and that ended at once
  std::atomic<uint64_t> copies{0};             // by copy engines
  std::atomic<uint64_t> copies_ended_max{
      ~uint64_t{0}};  // as if those after the first so many were under way
  // Memory that counts as the device's.
  unsigned char *memory = nullptr;
  size_t memory_size = 0;
};
fake_device &fake();

// service.cc's steps.
void fake_step();
#define TND_SERVICE_STEP() ::tanada::port::cuda::fake_step()

}  // namespace tanada::port::cuda
