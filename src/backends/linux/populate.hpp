// backends/linux/populate.hpp: pages of shared memory brought into this process's page table before
// they are used.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace tanada::port {

// Memory of a shared mapping that another process has brought in. The kernel handles a read of it
// for sixteen pages at once, and the entries are good for writing where the mapping is; a write it
// handles page by page, four times as slowly. Where the kernel refuses, pages come in by faults.
inline void populate_shared(void *addr, size_t size) noexcept {
  (void)madvise(addr, size, MADV_POPULATE_READ);
}

}  // namespace tanada::port
