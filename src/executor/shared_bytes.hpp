// executor/shared_bytes.hpp: writes host bytes that a kernel may copy concurrently under a version
// check (copy_from_host in tanada/device/detail/simt/copy.hpp). TSan builds use relaxed atomics,
// others memcpy.
#pragma once

#include <cstddef>
#include <cstring>

#include <tanada/device/detail/simt/config.hpp>

namespace tanada::simt::host {

#if defined(TND_TSAN)

inline void copy_to_shared(void *target, const void *source, size_t size) {
  u8 *target_bytes = static_cast<u8 *>(target);
  const u8 *source_bytes = static_cast<const u8 *>(source);
  for (size_t i = 0; i < size;) {
    bool const wide = size - i >= 8 && (reinterpret_cast<size_t>(target_bytes + i) & 7) == 0;
    u64 word = 0;
    std::memcpy(&word, source_bytes + i, wide ? 8 : 1);
    if (wide)
      __atomic_store_n(reinterpret_cast<u64 *>(target_bytes + i), word, __ATOMIC_RELAXED);
    else
      __atomic_store_n(target_bytes + i, u8(word), __ATOMIC_RELAXED);
    i += wide ? 8 : 1;
  }
}

inline void zero_shared(void *target, size_t size) {
  u8 *target_bytes = static_cast<u8 *>(target);
  for (size_t i = 0; i < size; i++) {
    __atomic_store_n(target_bytes + i, u8(0), __ATOMIC_RELAXED);
  }
}

#else

inline void copy_to_shared(void *target, const void *source, size_t size) {
  std::memcpy(target, source, size);
}
inline void zero_shared(void *target, size_t size) {
  std::memset(target, 0, size);
}

#endif

}  // namespace tanada::simt::host
