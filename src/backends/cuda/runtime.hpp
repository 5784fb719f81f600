// backends/cuda/runtime.hpp: the CUDA runtime's errors as statuses, and which device is current.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "backends/cuda/message.hpp"

namespace tanada::port::cuda {

// A status for what the runtime says; its words are kept, after "what number".
tnd_status checked(cudaError_t error, const char *what, unsigned long long number);

// The device is current while this lives; what the caller had comes back after. That is a context,
// and often none: the runtime would say device 0 for none, and to select that makes a context
// there, which takes a second and half a gigabyte.
class current_device {
 public:
  explicit current_device(uint32_t index);
  ~current_device();
  current_device(const current_device &) = delete;
  cudaError_t error() const {
    return error_;
  }

 private:
  CUcontext before_ = nullptr;
  cudaError_t error_;
};

}  // namespace tanada::port::cuda
