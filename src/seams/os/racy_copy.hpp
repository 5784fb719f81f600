// seams/os/racy_copy.hpp: a copy whose caller accepts that another thread touches the same bytes
// meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tanada::port {

// memcpy, for bytes that others may read optimistically under a version check (a cache's frames) or
// write through an unordered operation: such a reader may see a mix and must throw it away.
// ThreadSanitizer would report every such copy, so its builds move the bytes with relaxed atomics,
// which is what the protocol relies on.
inline void racy_copy(std::byte *target, const std::byte *source, size_t size) noexcept {
#if defined(TND_TSAN)
  bool const words = ((uintptr_t(target) | uintptr_t(source)) & 7u) == 0;
  size_t at = 0;
  for (; words && at + 8 <= size; at += 8) {
    uint64_t const value =
        __atomic_load_n(reinterpret_cast<const uint64_t *>(source + at), __ATOMIC_RELAXED);
    __atomic_store_n(reinterpret_cast<uint64_t *>(target + at), value, __ATOMIC_RELAXED);
  }
  for (; at < size; at++) {
    auto const value =
        __atomic_load_n(reinterpret_cast<const uint8_t *>(source + at), __ATOMIC_RELAXED);
    __atomic_store_n(reinterpret_cast<uint8_t *>(target + at), value, __ATOMIC_RELAXED);
  }
#else
  if (size != 0)
    std::memcpy(target, source, size);
#endif
}

// The same for zeros.
inline void racy_zero(std::byte *target, size_t size) noexcept {
#if defined(TND_TSAN)
  for (size_t at = 0; at < size; at++) {
    __atomic_store_n(reinterpret_cast<uint8_t *>(target + at), uint8_t{0}, __ATOMIC_RELAXED);
  }
#else
  if (size != 0)
    std::memset(target, 0, size);
#endif
}

}  // namespace tanada::port
