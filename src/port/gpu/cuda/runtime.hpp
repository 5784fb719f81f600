// port/gpu/cuda/runtime.hpp: the CUDA runtime's errors as statuses, and which device is current.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "port/gpu/cuda/message.hpp"

namespace tanada::port::cuda {

// A status for what the runtime says; its words are kept, after "what number".
tnd_status checked(cudaError_t error, const char *what, unsigned long long number);

// The device is current while this lives; what the caller had comes back after.
class current_device {
 public:
  explicit current_device(uint32_t index) {
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = 0;
    error_ = cudaSetDevice(int(index));
  }
  ~current_device() { (void)cudaSetDevice(before_); }
  current_device(const current_device &) = delete;
  cudaError_t error() const { return error_; }

 private:
  int before_ = 0;
  cudaError_t error_;
};

}  // namespace tanada::port::cuda
