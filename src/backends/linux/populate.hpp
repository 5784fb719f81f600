// backends/linux/populate.hpp: populates this process's page table for shared memory before its
// use.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace tanada::backends {

// For memory of a shared mapping that another process has populated. A read fault maps sixteen
// pages at once, and the entries are writable if the mapping is. A write fault maps one page, four
// times as slowly. If the kernel refuses, pages are mapped by faults.
inline void populate_shared(void *addr, size_t size) noexcept {
  (void)madvise(addr, size, MADV_POPULATE_READ);
}

}  // namespace tanada::backends
