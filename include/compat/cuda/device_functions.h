// device_functions.h: what kernels call: indices, barriers, warp collectives, atomics, for the host
// executor. Not for direct inclusion.
#pragma once

#include "device_math.h"

#include <tanada/device/detail/simt/thread.hpp>

// threadIdx, blockIdx, blockDim and gridDim are words that tanada-nvcc translates in kernels and
// device functions: host code has variables of these names.
inline constexpr int warpSize = 32;

// ---- barriers and fences

inline void __syncthreads() {
  ::tanada::simt::block_barrier();
}
inline int __syncthreads_or(int vote) {
  return ::tanada::simt::block_any(vote != 0) ? 1 : 0;
}
inline int __syncthreads_and(int vote) {
  return ::tanada::simt::block_any(vote == 0) ? 0 : 1;
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  ::tanada::simt::warp_barrier(mask);
}
inline void __threadfence_block() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_system() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __nanosleep(unsigned) {
  ::tanada::simt::host::pause();
}
[[noreturn]] inline void __trap() {
  abort();
}

// ---- warps. `width` divides a warp into groups of 1, 2, 4, 8, 16 or 32 lanes.

inline unsigned __activemask() {
  return ::tanada::simt::active_mask();
}
inline unsigned __ballot_sync(unsigned mask, int vote) {
  return ::tanada::simt::ballot(mask, vote != 0);
}
inline int __any_sync(unsigned mask, int vote) {
  return __ballot_sync(mask, vote) != 0;
}
inline int __all_sync(unsigned mask, int vote) {
  return __ballot_sync(mask, !vote) == 0;
}
template <class T>
inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  unsigned const own = ::tanada::simt::lane_index();
  unsigned const base = own / unsigned(width) * unsigned(width);
  return ::tanada::simt::shuffle(mask, value, base + unsigned(lane) % unsigned(width));
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  unsigned const own = ::tanada::simt::lane_index();
  bool const is_inside = own % unsigned(width) >= delta;
  return ::tanada::simt::shuffle(mask, value, is_inside ? own - delta : own);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  unsigned const own = ::tanada::simt::lane_index();
  bool const is_inside = own % unsigned(width) + delta < unsigned(width);
  return ::tanada::simt::shuffle(mask, value, is_inside ? own + delta : own);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  unsigned const own = ::tanada::simt::lane_index(), partner = own ^ unsigned(lane_mask);
  bool const is_inside = partner / unsigned(width) <= own / unsigned(width);
  return ::tanada::simt::shuffle(mask, value, is_inside ? partner : own);
}

// ---- numbers

inline int __popc(unsigned bits) {
  return __builtin_popcount(bits);
}
inline int __popcll(unsigned long long bits) {
  return __builtin_popcountll(bits);
}
inline int __ffs(int bits) {
  return __builtin_ffs(bits);
}
inline int __ffsll(long long bits) {
  return __builtin_ffsll(bits);
}
inline int __clz(int bits) {
  return bits == 0 ? 32 : __builtin_clz(unsigned(bits));
}
inline int __clzll(long long bits) {
  return bits == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(bits));
}
template <class T>
inline T __ldg(const T *addr) {
  return *addr;
}
template <class T>
inline T __ldcg(const T *addr) {
  return *addr;
}
// In nanoseconds: cudaDeviceProp::clockRate is a gigahertz.
inline long long clock64() {
  return static_cast<long long>(::tanada::simt::host::now_ns());
}
inline unsigned long long __globaltimer() {
  return ::tanada::simt::host::now_ns();
}

namespace tanada::cuda {

template <class T>
inline T smaller(T first, T second) {
  return second < first ? second : first;
}
template <class T>
inline T larger(T first, T second) {
  return first < second ? second : first;
}

}  // namespace tanada::cuda

// Of mixed types, as CUDA's, for host code and kernels.
#define TND_CUDA_MIN_MAX_(FIRST, SECOND, RESULT)           \
  inline RESULT min(FIRST first, SECOND second) {          \
    return ::tanada::cuda::smaller<RESULT>(first, second); \
  }                                                        \
  inline RESULT max(FIRST first, SECOND second) {          \
    return ::tanada::cuda::larger<RESULT>(first, second);  \
  }
TND_CUDA_MIN_MAX_(int, int, int)
TND_CUDA_MIN_MAX_(unsigned, unsigned, unsigned)
TND_CUDA_MIN_MAX_(int, unsigned, unsigned)
TND_CUDA_MIN_MAX_(unsigned, int, unsigned)
TND_CUDA_MIN_MAX_(long, long, long)
TND_CUDA_MIN_MAX_(unsigned long, unsigned long, unsigned long)
TND_CUDA_MIN_MAX_(long, unsigned long, unsigned long)
TND_CUDA_MIN_MAX_(unsigned long, long, unsigned long)
TND_CUDA_MIN_MAX_(long long, long long, long long)
TND_CUDA_MIN_MAX_(unsigned long long, unsigned long long, unsigned long long)
TND_CUDA_MIN_MAX_(long long, unsigned long long, unsigned long long)
TND_CUDA_MIN_MAX_(unsigned long long, long long, unsigned long long)
TND_CUDA_MIN_MAX_(float, float, float)
TND_CUDA_MIN_MAX_(double, double, double)
TND_CUDA_MIN_MAX_(float, double, double)
TND_CUDA_MIN_MAX_(double, float, double)
#undef TND_CUDA_MIN_MAX_

#include "device_atomics.h"
