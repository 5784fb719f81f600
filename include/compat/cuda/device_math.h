// device_math.h: CUDA's intrinsics on bits and numbers, for the host executor: the same values as
// on a GPU, or more exact ones. Not for direct inclusion.
#pragma once

#include <math.h>
#include <string.h>

namespace tanada::cuda {

// The same bits as another type.
template <class To, class From>
inline To same_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "types of one size");
  To result;
  memcpy(&result, &value, sizeof result);
  return result;
}

}  // namespace tanada::cuda

// ---- numbers as their bits

inline float __int_as_float(int bits) {
  return ::tanada::cuda::same_bits<float>(bits);
}
inline int __float_as_int(float value) {
  return ::tanada::cuda::same_bits<int>(value);
}
inline float __uint_as_float(unsigned bits) {
  return ::tanada::cuda::same_bits<float>(bits);
}
inline unsigned __float_as_uint(float value) {
  return ::tanada::cuda::same_bits<unsigned>(value);
}
inline double __longlong_as_double(long long bits) {
  return ::tanada::cuda::same_bits<double>(bits);
}
inline long long __double_as_longlong(double value) {
  return ::tanada::cuda::same_bits<long long>(value);
}
inline int __double2hiint(double value) {
  return int(__double_as_longlong(value) >> 32);
}
inline int __double2loint(double value) {
  return int(__double_as_longlong(value));
}
inline double __hiloint2double(int high, int low) {
  return __longlong_as_double(static_cast<long long>(
      static_cast<unsigned long long>(unsigned(high)) << 32 | unsigned(low)));
}

// ---- integers

inline unsigned __brev(unsigned bits) {
  unsigned result = 0;
  for (int i = 0; i < 32; i++)
    result |= (bits >> i & 1u) << (31 - i);
  return result;
}
inline int __mulhi(int first, int second) {
  return int(static_cast<long long>(first) * second >> 32);
}
inline unsigned __umulhi(unsigned first, unsigned second) {
  return unsigned(static_cast<unsigned long long>(first) * second >> 32);
}
inline unsigned long long __umul64hi(unsigned long long first, unsigned long long second) {
  __extension__ using wide = unsigned __int128;
  return static_cast<unsigned long long>(static_cast<wide>(first) * second >> 64);
}

// ---- conversions: to the nearest (rn), towards zero (rz), down (rd), up (ru)

inline int __float2int_rn(float value) {
  return int(rintf(value));
}
inline int __float2int_rz(float value) {
  return int(value);
}
inline int __float2int_rd(float value) {
  return int(floorf(value));
}
inline int __float2int_ru(float value) {
  return int(ceilf(value));
}
inline unsigned __float2uint_rn(float value) {
  return unsigned(rintf(value));
}
inline unsigned __float2uint_rz(float value) {
  return unsigned(value);
}
inline int __double2int_rn(double value) {
  return int(rint(value));
}
inline int __double2int_rz(double value) {
  return int(value);
}
inline int __double2int_rd(double value) {
  return int(floor(value));
}
inline int __double2int_ru(double value) {
  return int(ceil(value));
}
inline float __int2float_rn(int value) {
  return float(value);
}
inline float __int2float_rd(int value) {
  float const result = float(value);
  return double(result) > double(value) ? nextafterf(result, -INFINITY) : result;
}
inline float __int2float_ru(int value) {
  float const result = float(value);
  return double(result) < double(value) ? nextafterf(result, INFINITY) : result;
}
inline float __int2float_rz(int value) {
  return value < 0 ? __int2float_ru(value) : __int2float_rd(value);
}
inline float __uint2float_rn(unsigned value) {
  return float(value);
}
inline double __int2double_rn(int value) {
  return double(value);
}
inline float __double2float_rn(double value) {
  return float(value);
}

// ---- arithmetic

inline float __fadd_rn(float first, float second) {
  return first + second;
}
inline float __fmul_rn(float first, float second) {
  return first * second;
}
inline float __fmaf_rn(float first, float second, float third) {
  return fmaf(first, second, third);
}
inline float __fsqrt_rn(float value) {
  return sqrtf(value);
}
inline float __frcp_rn(float value) {
  return 1.0f / value;
}
inline float __fdiv_rn(float first, float second) {
  return first / second;
}
inline float __fdividef(float first, float second) {
  return first / second;
}
inline float __saturatef(float value) {
  return value > 0.0f ? (value < 1.0f ? value : 1.0f) : 0.0f;
}
inline double __dadd_rn(double first, double second) {
  return first + second;
}
inline double __dmul_rn(double first, double second) {
  return first * second;
}
inline double __fma_rn(double first, double second, double third) {
  return fma(first, second, third);
}
inline float rsqrtf(float value) {
  return 1.0f / sqrtf(value);
}
inline double rsqrt(double value) {
  return 1.0 / sqrt(value);
}

// ---- functions that a GPU computes with less precision

inline float __expf(float value) {
  return expf(value);
}
inline float __exp10f(float value) {
  return powf(10.0f, value);
}
inline float __logf(float value) {
  return logf(value);
}
inline float __log2f(float value) {
  return log2f(value);
}
inline float __log10f(float value) {
  return log10f(value);
}
inline float __powf(float base, float exponent) {
  return powf(base, exponent);
}
inline float __sinf(float angle) {
  return sinf(angle);
}
inline float __cosf(float angle) {
  return cosf(angle);
}
inline float __tanf(float angle) {
  return tanf(angle);
}
inline void __sincosf(float angle, float *sine, float *cosine) {
  *sine = sinf(angle);
  *cosine = cosf(angle);
}
