#include "port/memory/huge_pages.hpp"

#include <sys/mman.h>

#include <cerrno>

#include "port/memory/populate.hpp"

namespace tanada::port {
namespace {

#ifdef MADV_COLLAPSE
constexpr int collapse_advice = MADV_COLLAPSE;
#else
constexpr int collapse_advice = 25;  // of Linux 6.1
#endif

constexpr size_t small_page_size = 4096;

// Shared memory of the kernel's own has no file to place the mapping by, so room for an aligned one
// is reserved first.
void *map_aligned(const file_part &part, int protection) noexcept {
  size_t const reserved_size = part.size + huge_page_size + small_page_size;
  void *const reserved =
      mmap(nullptr, reserved_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  auto const first = reinterpret_cast<uintptr_t>(reserved);
  uintptr_t const begin = first + (part.offset - first) % huge_page_size;
  uintptr_t const end = (begin + part.size + small_page_size - 1) & ~uintptr_t{small_page_size - 1};
  void *const target = reinterpret_cast<void *>(begin);
  void *const mapped = mmap(target, part.size, protection, MAP_SHARED | MAP_FIXED, part.descriptor,
                            off_t(part.offset));
  if (mapped == MAP_FAILED) {
    int const code = errno;
    munmap(reserved, reserved_size);
    errno = code;
    return nullptr;
  }
  if (begin != first) munmap(reserved, begin - first);
  if (end != first + reserved_size)
    munmap(reinterpret_cast<void *>(end), first + reserved_size - end);
  return mapped;
}

bool is_resident(void *addr) noexcept {
  unsigned char state = 0;
  return mincore(addr, small_page_size, &state) == 0 && (state & 1) != 0;
}

}  // namespace

void *map_file_part(const file_part &part, int protection) noexcept {
  bool const may_be_huge = part.size >= huge_page_size;
  void *const aligned = may_be_huge ? map_aligned(part, protection) : nullptr;
  if (aligned != nullptr) return aligned;
  // Pages that were set aside may be larger ones, whose mappings have places of their own.
  void *const mapped =
      mmap(nullptr, part.size, protection, MAP_SHARED, part.descriptor, off_t(part.offset));
  return mapped == MAP_FAILED ? nullptr : mapped;
}

bool make_huge_pages(void *addr, size_t size) noexcept {
  if (size == 0) return true;
  auto *const begin = static_cast<std::byte *>(addr);
  // The kernel makes a huge page only where there is a page already.
  for (size_t offset = 0; offset < size; offset += huge_page_size) {
    if (madvise(begin + offset, small_page_size, MADV_POPULATE_WRITE) != 0) return false;
  }
  // It passes over pages that somebody looks at for a moment: they are worth another try.
  return madvise(addr, size, collapse_advice) == 0 || madvise(addr, size, collapse_advice) == 0;
}

void populate_file_part(void *addr, size_t size, bool is_writable) noexcept {
  bool const is_whole =
      size == huge_page_size && reinterpret_cast<uintptr_t>(addr) % huge_page_size == 0;
  if (is_whole && is_writable && !is_resident(addr) && make_huge_pages(addr, size)) return;
  populate_shared(addr, size);
}

}  // namespace tanada::port
