// seams/os/program_data.hpp: the memory in which a program's global and static variables lie.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/result.hpp"

namespace tanada::port {

// Whole pages that hold the .data and .bss of the program itself, not of its libraries. Equal in
// size, and by offset in meaning, in all processes that run the same program. Empty: it has none.
std::span<std::byte> program_data() noexcept;

// Let the program's data live in shared memory from now on, at the addresses where it is: whoever
// maps these pages of `descriptor` reads and writes the variables. `offset`: a multiple of the page
// size. Other threads must not write variables of the program meanwhile. A child made by fork gets
// its own copy, as it would without, but at once (of pages that were written). What the system
// said, with a message; the variables then are as they were.
status program_data_share(int descriptor, size_t offset);

}  // namespace tanada::port
