// products/comex/heap/hooks.hpp: replaces the program's malloc, so that large pieces come from a
// swappable heap.
#pragma once

#include <cstddef>

#include "products/comex/heap/allocator.hpp"

namespace tanada::comex::heap {

// From now on, allocations of at least `threshold` bytes come from `heap`, if the program or its
// libraries make them. Exempt are libraries for which is_system_library() is true. `heap` and its
// memory live until the process ends, because programs free pieces at any time. Logs a warning if
// the order of the libraries gives the program another malloc.
void serve_program(allocator &heap, size_t threshold);

// No new pieces come from the heap; existing ones remain valid.
void stop_serving() noexcept;

}  // namespace tanada::comex::heap
