// parts/select.h: how one name serves host code and kernels. Not for direct inclusion.
#pragma once

#if !defined(__cplusplus) || __cplusplus < 201703L
#  error "nvshmem.h needs C++17: compile with -std=c++17 or later"
#endif
#if !defined(__CUDACC__) && !defined(TND_HOST_EXECUTOR)
#  error "nvshmem.h has kernels: compile with nvcc -x cu for GPUs, or tanada-nvcc for processors"
#endif

// NVSHMEM's headers include these, and programs rely on it.
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../../shmemx_on_stream.cuh"

#define NVSHMEM_BOTH_ TND_HD inline
#define NVSHMEM_DEVICE_ TND_DEVICE inline

// Of a function for both: the first expression in kernels, the second in host code.
#if TND_ON_DEVICE
#  define NVSHMEM_SELECT_(DEVICE, HOST) return DEVICE
#elif TND_SIMT_CUDA
#  define NVSHMEM_SELECT_(DEVICE, HOST) return HOST
#else
#  define NVSHMEM_SELECT_(DEVICE, HOST)    \
    if (::tanada::simt::host::in_kernel()) \
      return DEVICE;                       \
    return HOST
#endif

namespace tanada::nvshmem {

namespace bodies = ::tanada::shmem::device;

inline constexpr u64 world_context = bodies::context_first;

// A stream of the program as the calls below know it.
#if TND_SIMT_CUDA
inline bodies::stream stream_of(cudaStream_t stream) {
  return stream;
}
#else
inline bodies::stream stream_of(cudaStream_t) {
  return {};
}
#endif

}  // namespace tanada::nvshmem
