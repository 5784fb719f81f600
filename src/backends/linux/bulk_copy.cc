#include "seams/os/bulk_copy.hpp"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#  include <emmintrin.h>
#endif

namespace tanada::port {

#if defined(__x86_64__)

namespace {

constexpr size_t line_size = 64, copied_page_size = 4096, copied_page_count = 4;

inline void copy_line(char *target, const char *source) noexcept {
  __m128i parts[4];
  for (int i = 0; i < 4; i++)
    parts[i] = _mm_loadu_si128(reinterpret_cast<const __m128i *>(source) + i);
  for (int i = 0; i < 4; i++)
    _mm_stream_si128(reinterpret_cast<__m128i *>(target) + i, parts[i]);
}

size_t bytes_before_line(const char *at) {
  return (line_size - reinterpret_cast<uintptr_t>(at) % line_size) % line_size;
}

}  // namespace

void copy_past_caches(void *target, const void *source, size_t size) noexcept {
  auto *to = static_cast<char *>(target);
  auto const *from = static_cast<const char *>(source);
  size_t const before_line = bytes_before_line(to);
  if (size < before_line + copied_page_count * copied_page_size) {
    if (size > 0)
      std::memcpy(to, from, size);
    return;
  }
  std::memcpy(to, from, before_line);
  to += before_line;
  from += before_line;
  size -= before_line;
  for (; size >= copied_page_count * copied_page_size;
       size -= copied_page_count * copied_page_size) {
    for (size_t at = 0; at < copied_page_size; at += line_size)
      for (size_t page = 0; page < copied_page_count; page++)
        copy_line(to + page * copied_page_size + at, from + page * copied_page_size + at);
    to += copied_page_count * copied_page_size;
    from += copied_page_count * copied_page_size;
  }
  std::memcpy(to, from, size);
  _mm_sfence();  // such stores are ordered with no others but by this
}

void copy_to_other(void *target, const void *source, size_t size) noexcept {
  auto *to = static_cast<char *>(target);
  auto const *from = static_cast<const char *>(source);
  if (size < copied_page_size) {
    if (size > 0)
      std::memcpy(to, from, size);
    return;
  }
  size_t const before_line = bytes_before_line(to);
  std::memcpy(to, from, before_line);
  to += before_line;
  from += before_line;
  size -= before_line;
  for (; size >= line_size; size -= line_size, to += line_size, from += line_size)
    copy_line(to, from);
  std::memcpy(to, from, size);
  _mm_sfence();
}

#else

void copy_past_caches(void *target, const void *source, size_t size) noexcept {
  if (size > 0)
    std::memcpy(target, source, size);
}

void copy_to_other(void *target, const void *source, size_t size) noexcept {
  copy_past_caches(target, source, size);
}

#endif

}  // namespace tanada::port
