// host_defines.h: CUDA's words for functions and variables, for the host executor. tanada-nvcc
// itself translates __global__, __device__, __shared__ and __noinline__.
#pragma once

#if defined(__CUDACC__)
#  error "these headers replace CUDA's where there is no nvcc: remove the folder cuda from the path"
#endif

#if !defined(TND_HOST_EXECUTOR)
#  define TND_HOST_EXECUTOR
#endif

#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)

// Without tanada-nvcc a source has no kernels, but may include headers that declare some.
#if !defined(TND_NVCC)
#  define __global__
#  define __device__
#endif

#define CUDART_VERSION 13000
#define CUDA_VERSION 13000
