// backends/cuda/runtime.hpp: conversion of the CUDA runtime's errors to statuses, and the current
// device.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "backends/cuda/message.hpp"

namespace tanada::backends::cuda {

// Converts an error of the runtime to a status. The message is "action number: the runtime's text".
tnd_status checked(cudaError_t error, const char *action, unsigned long long number);

// Makes the device current during its lifetime, and then restores the caller's context, which is
// often none. The runtime would report device 0 for none, and selecting that creates a context
// there, which costs a second and half a gigabyte.
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

}  // namespace tanada::backends::cuda
