// cuda_fp16.h: half precision, for the host executor: stored in 16 bits, computed as float, rounded
// to nearest even.
#pragma once

#include <stdint.h>
#include <string.h>

#include "host_defines.h"

namespace tanada::cuda {

inline uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// The multiplications scale the exponent, so that subnormal numbers need no case of their own.
inline uint16_t half_bits(float value) {
  uint32_t const bits = float_bits(value), sign = bits >> 16 & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return uint16_t(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u)  // rounds to more than the largest number
    return uint16_t(sign | 0x7c00u);
  if (magnitude < 0x38800000u)  // subnormal: adding 0.5 leaves the rounded bits at the end
    return uint16_t(sign | (float_bits(float_of_bits(magnitude) + 0.5f) - 0x3f000000u));
  magnitude += 0xc8000fffu + (magnitude >> 13 & 1u);
  return uint16_t(sign | magnitude >> 13);
}
inline float float_of_half(uint16_t half) {
  uint32_t const sign = uint32_t(half & 0x8000u) << 16, rest = uint32_t(half & 0x7fffu) << 13;
  if (rest >= 0x0f800000u)  // infinite or not a number
    return float_of_bits(sign | 0x7f800000u | (rest & 0x007fffffu));
  return float_of_bits(sign | float_bits(float_of_bits(rest) * float_of_bits(0x77800000u)));
}

}  // namespace tanada::cuda

// A number of 16 bits: NAME, to its bits from a float, and back.
#define TND_CUDA_SMALL_FLOAT_(NAME, ENCODE, DECODE)        \
  struct alignas(2) NAME {                                 \
    uint16_t bits;                                         \
    NAME() = default;                                      \
    NAME(float value) : bits{ENCODE(value)} {}             \
    NAME(double value) : NAME(float(value)) {}             \
    NAME(int value) : NAME(float(value)) {}                \
    NAME(unsigned value) : NAME(float(value)) {}           \
    NAME(long value) : NAME(float(value)) {}               \
    NAME(unsigned long value) : NAME(float(value)) {}      \
    NAME(long long value) : NAME(float(value)) {}          \
    NAME(unsigned long long value) : NAME(float(value)) {} \
    operator float() const {                               \
      return DECODE(bits);                                 \
    }                                                      \
    NAME &operator+=(NAME other) {                         \
      return *this = NAME(float(*this) + float(other));    \
    }                                                      \
    NAME &operator-=(NAME other) {                         \
      return *this = NAME(float(*this) - float(other));    \
    }                                                      \
    NAME &operator*=(NAME other) {                         \
      return *this = NAME(float(*this) * float(other));    \
    }                                                      \
    NAME &operator/=(NAME other) {                         \
      return *this = NAME(float(*this) / float(other));    \
    }                                                      \
  };

TND_CUDA_SMALL_FLOAT_(__half, ::tanada::cuda::half_bits, ::tanada::cuda::float_of_half)
typedef __half half;

inline half __float2half(float value) {
  return half(value);
}
inline float __half2float(half value) {
  return float(value);
}
inline half __hadd(half first, half second) {
  return half(float(first) + float(second));
}
inline half __hmul(half first, half second) {
  return half(float(first) * float(second));
}

struct alignas(4) __half2 {
  half x, y;
};
typedef __half2 half2;
