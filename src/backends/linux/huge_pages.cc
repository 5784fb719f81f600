#include "seams/os/huge_pages.hpp"

#include <sys/mman.h>

#include <cerrno>

#include "backends/linux/populate.hpp"

namespace tanada::port {
namespace {

#ifdef MADV_COLLAPSE
constexpr int collapse_advice = MADV_COLLAPSE;
#else
constexpr int collapse_advice = 25;  // of Linux 6.1
#endif

constexpr size_t small_page_size = 4096;

constexpr int place_try_count = 4;

// Finds an address at which `part` can be mapped aligned. The place is free when this returns, and
// another thread may take it.
void *find_place(const file_part &part) noexcept {
  size_t const size = part.size + huge_page_size + small_page_size;
  void *const found =
      mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED)
    return nullptr;
  munmap(found, size);
  auto const first = reinterpret_cast<uintptr_t>(found);
  return reinterpret_cast<void *>(first + (part.offset - first) % huge_page_size);
}

// Shared memory of the kernel's own has no file to place the mapping by, so a place is looked for
// first. It is not kept reserved meanwhile: a mapping over a reservation that fails (huge pages
// that nobody has set aside) has unmapped its part of the reservation already, where another
// thread's stack may be by the time that we clear the rest.
void *map_aligned(const file_part &part, int protection) noexcept {
  for (int i = 0; i < place_try_count; i++) {
    void *const place = find_place(part);
    if (place == nullptr)
      return nullptr;
    void *const mapped = mmap(place, part.size, protection, MAP_SHARED | MAP_FIXED_NOREPLACE,
                              part.descriptor, off_t(part.offset));
    if (mapped == place)
      return mapped;
    if (mapped == MAP_FAILED && errno != EEXIST)
      return nullptr;
    if (mapped != MAP_FAILED)
      munmap(mapped, part.size);  // before Linux 4.17 a place is a wish
  }
  return nullptr;
}

bool is_resident(void *addr) noexcept {
  unsigned char state = 0;
  return mincore(addr, small_page_size, &state) == 0 && (state & 1) != 0;
}

}  // namespace

void *map_file_part(const file_part &part, int protection) noexcept {
  bool const may_be_huge = part.size >= huge_page_size;
  void *const aligned = may_be_huge ? map_aligned(part, protection) : nullptr;
  if (aligned != nullptr)
    return aligned;
  // Pages that were set aside may be larger ones, whose mappings have places of their own.
  void *const mapped =
      mmap(nullptr, part.size, protection, MAP_SHARED, part.descriptor, off_t(part.offset));
  return mapped == MAP_FAILED ? nullptr : mapped;
}

bool make_huge_pages(void *addr, size_t size) noexcept {
  if (size == 0)
    return true;
  auto *const begin = static_cast<std::byte *>(addr);
  // The kernel makes a huge page only where there is a page already.
  for (size_t offset = 0; offset < size; offset += huge_page_size) {
    if (madvise(begin + offset, small_page_size, MADV_POPULATE_WRITE) != 0)
      return false;
  }
  // It passes over pages that somebody looks at for a moment: they are worth another try.
  return madvise(addr, size, collapse_advice) == 0 || madvise(addr, size, collapse_advice) == 0;
}

void populate_file_part(void *addr, size_t size, bool is_writable) noexcept {
  bool const is_whole =
      size == huge_page_size && reinterpret_cast<uintptr_t>(addr) % huge_page_size == 0;
  if (is_whole && is_writable && !is_resident(addr) && make_huge_pages(addr, size))
    return;
  populate_shared(addr, size);
}

}  // namespace tanada::port
