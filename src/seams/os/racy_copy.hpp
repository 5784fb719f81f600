// seams/os/racy_copy.hpp: a copy whose caller accepts that another thread uses the same bytes
// meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tanada::seams {

// memcpy for bytes that others may read optimistically under a version check (a cache's frames) or
// write through an unordered operation. Such a reader may see a mix and must discard it.
// ThreadSanitizer would report every such copy. Its builds therefore move the bytes with relaxed
// atomics, which is what the protocol relies on.
inline void racy_copy(std::byte *target, const std::byte *source, size_t size) noexcept {
#if defined(TND_TSAN)
  bool const words = ((uintptr_t(target) | uintptr_t(source)) & 7u) == 0;
  size_t position = 0;
  for (; words && position + 8 <= size; position += 8) {
    uint64_t const value =
        __atomic_load_n(reinterpret_cast<const uint64_t *>(source + position), __ATOMIC_RELAXED);
    __atomic_store_n(reinterpret_cast<uint64_t *>(target + position), value, __ATOMIC_RELAXED);
  }
  for (; position < size; position++) {
    auto const value =
        __atomic_load_n(reinterpret_cast<const uint8_t *>(source + position), __ATOMIC_RELAXED);
    __atomic_store_n(reinterpret_cast<uint8_t *>(target + position), value, __ATOMIC_RELAXED);
  }
#else
  if (size != 0)
    std::memcpy(target, source, size);
#endif
}

// The same for zeros.
inline void racy_zero(std::byte *target, size_t size) noexcept {
#if defined(TND_TSAN)
  for (size_t position = 0; position < size; position++) {
    __atomic_store_n(reinterpret_cast<uint8_t *>(target + position), uint8_t{0}, __ATOMIC_RELAXED);
  }
#else
  if (size != 0)
    std::memset(target, 0, size);
#endif
}

}  // namespace tanada::seams
