// backends/linux/huge_pages.cc: maps parts of shared files so that they can use huge pages.
#include "seams/os/huge_pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "backends/linux/populate.hpp"

namespace tanada::seams {
namespace {

#ifdef MADV_COLLAPSE
constexpr int collapse_advice = MADV_COLLAPSE;
#else
constexpr int collapse_advice = 25;  // defined since Linux 6.1
#endif

constexpr size_t small_page_size = 4096;

constexpr int map_try_count = 4;

// Finds an address at which `part` can be mapped with alignment. The address range is free when
// this returns, but another thread may map something there.
void *find_address(const file_part &part) noexcept {
  size_t const size = part.size + huge_page_size + small_page_size;
  void *const reserved =
      mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED)
    return nullptr;
  munmap(reserved, size);
  auto const first = reinterpret_cast<uintptr_t>(reserved);
  return reinterpret_cast<void *>(first + (part.offset - first) % huge_page_size);
}

// The kernel has no file to align mappings of shared memory by, so an address is chosen first. It
// is not kept reserved. When a mapping over a reservation fails (for huge pages that nobody set
// aside), the kernel has already unmapped part of the reservation. Another thread's stack may be
// there by the time this thread unmaps the rest.
void *map_aligned(const file_part &part, int protection) noexcept {
  for (int i = 0; i < map_try_count; i++) {
    void *const address = find_address(part);
    if (address == nullptr)
      return nullptr;
    void *const mapped = mmap(address,
                              part.size,
                              protection,
                              MAP_SHARED | MAP_FIXED_NOREPLACE,
                              part.descriptor,
                              off_t(part.offset));
    if (mapped == address)
      return mapped;
    if (mapped == MAP_FAILED && errno != EEXIST)
      return nullptr;
    if (mapped != MAP_FAILED)
      munmap(mapped, part.size);  // before Linux 4.17 the address is only a hint
  }
  return nullptr;
}

// A page that another thread is using at the moment makes the kernel fail with EAGAIN or EBUSY.
bool collapse(std::byte *huge_page) noexcept {
  constexpr int try_count = 16;
  for (int i = 0; i < try_count; i++) {
    if (madvise(huge_page, huge_page_size, collapse_advice) == 0)
      return true;
    if (errno != EAGAIN && errno != EBUSY)
      return false;
  }
  return false;
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
  // Huge pages that were set aside may be larger and need other alignments, so let the kernel
  // choose.
  void *const mapped =
      mmap(nullptr, part.size, protection, MAP_SHARED, part.descriptor, off_t(part.offset));
  return mapped == MAP_FAILED ? nullptr : mapped;
}

// Only such files have seals.
bool is_memory_file(int descriptor) noexcept {
  return fcntl(descriptor, F_GET_SEALS) >= 0;
}

bool make_huge_pages(void *addr, size_t size) noexcept {
  if (size == 0)
    return true;
  auto *const begin = static_cast<std::byte *>(addr);
  // The kernel creates a huge page only where a page exists.
  for (size_t offset = 0; offset < size; offset += huge_page_size) {
    if (madvise(begin + offset, small_page_size, MADV_POPULATE_WRITE) != 0)
      return false;
  }
  if (madvise(addr, size, collapse_advice) == 0)
    return true;
  // One call reports only that some page failed.
  for (size_t offset = 0; offset < size; offset += huge_page_size) {
    if (!collapse(begin + offset))
      return false;
  }
  return true;
}

void populate_file_part(void *addr, size_t size, bool is_writable) noexcept {
  bool const is_whole =
      size == huge_page_size && reinterpret_cast<uintptr_t>(addr) % huge_page_size == 0;
  if (is_whole && is_writable && !is_resident(addr) && make_huge_pages(addr, size))
    return;
  backends::populate_shared(addr, size);
}

}  // namespace tanada::seams
