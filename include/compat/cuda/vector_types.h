// vector_types.h: CUDA's vectors of two to four numbers, for the host executor.
#pragma once

#include <tanada/device/detail/simt/host/executor.hpp>

using dim3 = ::tanada::simt::dim3;

#define TND_CUDA_VECTORS_(NAME, TYPE, ALIGN_2, ALIGN_4)           \
  struct NAME##1 {                                                \
    TYPE x;                                                       \
  };                                                              \
  struct alignas(ALIGN_2) NAME##2 {                               \
    TYPE x, y;                                                    \
  };                                                              \
  struct NAME##3 {                                                \
    TYPE x, y, z;                                                 \
  };                                                              \
  struct alignas(ALIGN_4) NAME##4 {                               \
    TYPE x, y, z, w;                                              \
  };                                                              \
  inline NAME##1 make_##NAME##1(TYPE x) {                         \
    return {x};                                                   \
  }                                                               \
  inline NAME##2 make_##NAME##2(TYPE x, TYPE y) {                 \
    return {x, y};                                                \
  }                                                               \
  inline NAME##3 make_##NAME##3(TYPE x, TYPE y, TYPE z) {         \
    return {x, y, z};                                             \
  }                                                               \
  inline NAME##4 make_##NAME##4(TYPE x, TYPE y, TYPE z, TYPE w) { \
    return {x, y, z, w};                                          \
  }

TND_CUDA_VECTORS_(char, signed char, 2, 4)
TND_CUDA_VECTORS_(uchar, unsigned char, 2, 4)
TND_CUDA_VECTORS_(short, short, 4, 8)
TND_CUDA_VECTORS_(ushort, unsigned short, 4, 8)
TND_CUDA_VECTORS_(int, int, 8, 16)
TND_CUDA_VECTORS_(uint, unsigned int, 8, 16)
TND_CUDA_VECTORS_(long, long, 16, 16)
TND_CUDA_VECTORS_(ulong, unsigned long, 16, 16)
TND_CUDA_VECTORS_(longlong, long long, 16, 16)
TND_CUDA_VECTORS_(ulonglong, unsigned long long, 16, 16)
TND_CUDA_VECTORS_(float, float, 8, 16)
TND_CUDA_VECTORS_(double, double, 16, 16)

#undef TND_CUDA_VECTORS_
