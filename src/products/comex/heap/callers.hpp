// products/comex/heap/callers.hpp: recognizes callers whose memory must not be swapped out.
#pragma once

#include <string_view>

namespace tanada::comex::heap {

// Whether the file is a library of MPI, a network, the system or Tanada. Threads, devices and other
// processes use such libraries' memory at any time, even while this process waits.
bool is_system_library(std::string_view file) noexcept;

// Whether the code at this address belongs to such a library. Any thread; allocates no memory. Code
// outside of any file counts as the program's.
bool is_system_code(const void *code) noexcept;

}  // namespace tanada::comex::heap
