// cuda_bf16.h: bfloat16, for the host executor: stored in 16 bits, computed as float, rounded to
// nearest even.
#pragma once

#include "cuda_fp16.h"

namespace tanada::cuda {

inline uint16_t bfloat16_bits(float value) {
  uint32_t const bits = float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return uint16_t(bits >> 16 | 0x40u);  // still not a number
  return uint16_t((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
inline float float_of_bfloat16(uint16_t bits) {
  return float_of_bits(uint32_t(bits) << 16);
}

}  // namespace tanada::cuda

TND_CUDA_SMALL_FLOAT_(__nv_bfloat16,
                      ::tanada::cuda::bfloat16_bits,
                      ::tanada::cuda::float_of_bfloat16)
typedef __nv_bfloat16 nv_bfloat16;

inline __nv_bfloat16 __float2bfloat16(float value) {
  return __nv_bfloat16(value);
}
inline float __bfloat162float(__nv_bfloat16 value) {
  return float(value);
}
