// seams/os/huge_pages.hpp: huge pages of memory that processes share, without pages that an
// administrator has reserved.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tanada::seams {

inline constexpr size_t huge_page_size = size_t{2} << 20;  // bytes
static_assert((huge_page_size & (huge_page_size - 1)) == 0);

// Part of a file of shared memory.
struct file_part {
  int descriptor;
  uint64_t offset;  // bytes, a multiple of the page size
  size_t size;      // bytes
};

// Maps the part so that each huge page of the file is one entry of the page table. The address and
// the offset in the file then have the same remainder by huge_page_size, unless no huge page fits
// in. `protection` is mmap's. Null: errno has the reason.
void *map_file_part(const file_part &part, int protection) noexcept;

// Whether the file is memory of a process (memfd_create, tmpfs). Others, such as a device of
// persistent memory, outlive the processes that map them.
bool is_memory_file(int descriptor) noexcept;

// Makes huge pages of shared memory, whatever the system's settings for memory files are. Missing
// pages are brought in, and the content stays. True: all of [addr, addr + size), both multiples of
// huge_page_size, is huge pages. False, with the reason in errno: the kernel has no more of them,
// or is older than Linux 6.1. Some pages may then be huge and some still missing.
bool make_huge_pages(void *addr, size_t size) noexcept;

// Brings in the pages of at most huge_page_size bytes of a mapping that map_file_part() made. They
// become one huge page if no process has brought them in before and the mapping `is_writable`. Best
// effort: other pages come in by faults.
void populate_file_part(void *addr, size_t size, bool is_writable) noexcept;

}  // namespace tanada::seams
