// seams/os/program_data.hpp: the memory that holds a program's global and static variables.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/result.hpp"

namespace tanada::seams {

// Whole pages that hold the .data and .bss of the program itself, not of its libraries. They have
// the same size and layout in all processes that run the same program. Empty: there are no such
// variables.
std::span<std::byte> program_data() noexcept;

// Moves the program's data to shared memory, at their present addresses. A process that maps these
// pages of `descriptor` then reads and writes the variables. `offset`: a multiple of the page size.
// Other threads must not write variables of the program meanwhile. A child made by fork gets its
// own copy, as it would without, but at once (of pages that were written). On failure the system's
// error, with a message; the variables are then unchanged.
status program_data_share(int descriptor, size_t offset);

}  // namespace tanada::seams
