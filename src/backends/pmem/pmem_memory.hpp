// backends/pmem/pmem_memory.hpp: seams::persistent_memory by libpmem.
//
// A file system with DAX maps a file by MAP_SYNC, which fails on all other files. A device of
// device DAX needs no such flag. libpmem knows both, and the instructions of the processor.
#pragma once

#include "seams/os/persistent_memory.hpp"

namespace tanada::backends {

// The one of this process. Without libpmem its map() returns not_supported.
seams::persistent_memory &pmem_memory();

}  // namespace tanada::backends
