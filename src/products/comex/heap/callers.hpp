// products/comex/heap/callers.hpp: whose memory must stay where it is.
#pragma once

#include <string_view>

namespace tanada::comex::heap {

// The library of this file is MPI's, a network's, the system's or our own: threads of theirs,
// devices and other processes use its memory whatever this process waits for.
bool is_name_of_system(std::string_view file) noexcept;

// Of the code at this address. Any thread; no memory is allocated. Code that belongs to no file is
// the program's.
bool is_code_of_system(const void *code) noexcept;

}  // namespace tanada::comex::heap
