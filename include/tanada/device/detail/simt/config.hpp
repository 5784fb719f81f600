// tanada/device/detail/simt/config.hpp: differences between nvcc, NVRTC and a plain C++ compiler.
// No host std headers: this must compile under all three, as C++17.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#  define TND_SIMT_CUDA 1
#  define TND_HD __host__ __device__
#  define TND_DEVICE __device__
#  define TND_KERNEL __global__
// For rare work of one thread of a group: called, not inlined, so that kernels stay small.
#  define TND_DEVICE_CALL __device__ __noinline__
#  define TND_HD_CALL __host__ __device__ __noinline__
// After TND_KERNEL: the largest number of threads in a block, for which registers must suffice.
#  define TND_LAUNCH_BOUNDS(...) __launch_bounds__(__VA_ARGS__)
#else
#  define TND_SIMT_CUDA 0
#  define TND_HD
#  define TND_DEVICE
#  define TND_KERNEL
#  define TND_DEVICE_CALL
#  define TND_HD_CALL
#  define TND_LAUNCH_BOUNDS(...)
#endif

#if defined(__CUDA_ARCH__)
#  define TND_ON_DEVICE 1
// Before a loop whose body addresses an array that must stay in registers. Host compilers warn
// about an unknown pragma.
#  define TND_UNROLL _Pragma("unroll")
#  define TND_NO_UNROLL _Pragma("unroll 1")
#else
#  define TND_ON_DEVICE 0
#  define TND_UNROLL
#  define TND_NO_UNROLL
#endif

#if defined(__CUDACC_RTC__)
#  define TND_SIMT_RTC 1
#else
#  define TND_SIMT_RTC 0
#endif

// memcpy of a small constant size. NVRTC has only the plain name.
#if TND_SIMT_RTC
#  define TND_COPY_BYTES(target, source, size) memcpy(target, source, size)
#else
#  define TND_COPY_BYTES(target, source, size) __builtin_memcpy(target, source, size)
#endif

namespace tanada {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8);

namespace simt {

// The high half of the product of two words.
TND_HD inline u64 high_product(u64 first, u64 second) {
#if TND_ON_DEVICE
  return __umul64hi(first, second);
#else
  __extension__ using wide = unsigned __int128;
  return u64(wide{first} * second >> 64);
#endif
}

}  // namespace simt
}  // namespace tanada

// Visibility of the functions of simt's host half that inline code outside the library calls.
#define TND_HOST_API __attribute__((visibility("default")))

// TND_SHARED(type, name): a variable shared by the threads of a block, uninitialized. For arrays,
// name the array type first: using row = int[32]; TND_SHARED(row, values);
#if TND_SIMT_CUDA
#  define TND_SHARED(type, name) __shared__ type name
#else
#  define TND_SHARED(type, name)       \
    static char tnd_shared_key_##name; \
    type &name = *static_cast<type *>( \
        ::tanada::simt::host::block_storage(&tnd_shared_key_##name, sizeof(type), alignof(type)))
namespace tanada::simt::host {
// The running block's storage for one TND_SHARED variable, filled with 0xA5 at its first use.
TND_HOST_API void *block_storage(const void *key, u64 size, u64 alignment) noexcept;
}  // namespace tanada::simt::host
#endif
