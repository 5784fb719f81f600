// seams/os/wide_vectors.hpp: functions that are compiled a second time for wider vectors than every
// processor has.
#pragma once

namespace tanada::seams {

// TND_WIDE_VECTORS before a function compiles it for vectors of 32 bytes (AVX2). It may be called
// only if has_wide_vectors(). On other processors than x86-64 it has no effect.
#if defined(__x86_64__)
#  define TND_WIDE_VECTORS [[gnu::target("avx2")]]
inline bool has_wide_vectors() noexcept {
  return __builtin_cpu_supports("avx2") != 0;
}
#else
#  define TND_WIDE_VECTORS
constexpr bool has_wide_vectors() noexcept {
  return false;
}
#endif

}  // namespace tanada::seams
