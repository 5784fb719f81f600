// backends/linux/bulk_copy.cc: copies of large memory that bypass the caches.
#include "seams/os/bulk_copy.hpp"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#  include <emmintrin.h>
#endif

namespace tanada::seams {

#if defined(__x86_64__)

namespace {

constexpr size_t line_size = 64;
constexpr size_t copied_page_size = 4096;
constexpr size_t copied_page_count = 4;
static_assert(copied_page_size % line_size == 0 && line_size % sizeof(__m128i) == 0);

inline void copy_line(char *target, const char *source) noexcept {
  __m128i parts[4];
  for (int i = 0; i < 4; i++)
    parts[i] = _mm_loadu_si128(reinterpret_cast<const __m128i *>(source) + i);
  for (int i = 0; i < 4; i++) {
    _mm_stream_si128(reinterpret_cast<__m128i *>(target) + i, parts[i]);
  }
}

size_t bytes_before_line(const char *address) {
  return (line_size - reinterpret_cast<uintptr_t>(address) % line_size) % line_size;
}

}  // namespace

void copy_past_caches(void *target, const void *source, size_t size) noexcept {
  auto *target_bytes = static_cast<char *>(target);
  auto const *source_bytes = static_cast<const char *>(source);
  size_t const before_line = bytes_before_line(target_bytes);
  if (size < before_line + copied_page_count * copied_page_size) {
    if (size > 0)
      std::memcpy(target_bytes, source_bytes, size);
    return;
  }
  std::memcpy(target_bytes, source_bytes, before_line);
  target_bytes += before_line;
  source_bytes += before_line;
  size -= before_line;
  for (; size >= copied_page_count * copied_page_size;
       size -= copied_page_count * copied_page_size) {
    for (size_t offset = 0; offset < copied_page_size; offset += line_size)
      for (size_t page = 0; page < copied_page_count; page++) {
        copy_line(target_bytes + page * copied_page_size + offset,
                  source_bytes + page * copied_page_size + offset);
      }
    target_bytes += copied_page_count * copied_page_size;
    source_bytes += copied_page_count * copied_page_size;
  }
  std::memcpy(target_bytes, source_bytes, size);
  _mm_sfence();  // orders the non-temporal stores before later ones
}

void copy_to_other_processor(void *target, const void *source, size_t size) noexcept {
  auto *target_bytes = static_cast<char *>(target);
  auto const *source_bytes = static_cast<const char *>(source);
  if (size < copied_page_size) {
    if (size > 0)
      std::memcpy(target_bytes, source_bytes, size);
    return;
  }
  size_t const before_line = bytes_before_line(target_bytes);
  std::memcpy(target_bytes, source_bytes, before_line);
  target_bytes += before_line;
  source_bytes += before_line;
  size -= before_line;
  while (size >= line_size) {
    copy_line(target_bytes, source_bytes);
    size -= line_size;
    target_bytes += line_size;
    source_bytes += line_size;
  }
  std::memcpy(target_bytes, source_bytes, size);
  _mm_sfence();
}

#else

void copy_past_caches(void *target, const void *source, size_t size) noexcept {
  if (size > 0)
    std::memcpy(target, source, size);
}

void copy_to_other_processor(void *target, const void *source, size_t size) noexcept {
  copy_past_caches(target, source, size);
}

#endif

void fetch_from_other_processor(const void *source, size_t size) noexcept {
  constexpr size_t line_size = 64, size_max = 8192;
  auto const *bytes = static_cast<const char *>(source);
  for (size_t offset = 0; offset < size && offset < size_max; offset += line_size)
    __builtin_prefetch(bytes + offset, 0, 3);
}

}  // namespace tanada::seams
