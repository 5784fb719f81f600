// products/comex/heap/hooks.hpp: the program's own malloc, where large pieces come of a heap.
#pragma once

#include <cstddef>

#include "products/comex/heap/pieces.hpp"

namespace tanada::comex::heap {

// From now on pieces of `threshold` bytes and more that the program or its libraries ask for come
// of `from`; not those of libraries that is_name_of_system() knows. `from` and its memory live to
// the end of the process: pieces are freed, and used, when the program will. Warns once where the
// program's malloc is not ours, which the order of its libraries decides.
void serve_program(pieces &from, size_t threshold);

// Nothing more comes of it; what has come stays.
void stop_serving() noexcept;

}  // namespace tanada::comex::heap
