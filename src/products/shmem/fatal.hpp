// products/shmem/fatal.hpp: errors of calls that cannot return one. They print one line that names
// the call, the PE and the address, and then end the job.
#pragma once

#include <fmt/core.h>

#include <exception>

#include "products/shmem/runtime.hpp"

namespace tanada::shmem {

// Prints, for example, "shmem_int_put: PE 3: address 0x... (8 bytes, PE 1) is not symmetric: heap
// 0x...-0x..., ...". Ends the job through the launcher; ends this process in any case.
[[noreturn, gnu::cold]] void fatal_text(const char *call,
                                        fmt::string_view format,
                                        fmt::format_args arguments) noexcept;
template <class... Arguments>
[[noreturn]] void fatal(const char *call,
                        fmt::format_string<Arguments...> format,
                        Arguments &&...arguments) noexcept {
  fatal_text(call, format, fmt::make_format_args(arguments...));
}

// Describes a failed operation on symmetric memory at `pe`, which is the number that the program
// passed.
struct failed_operation {
  const char *call;
  const void *addr;  // symmetric address
  size_t size;       // bytes
  int pe;
};
[[noreturn, gnu::cold, gnu::noinline]] void fatal(status code,
                                                  const failed_operation &operation) noexcept;

// Reports an exception thrown within a call, usually because memory is insufficient.
[[noreturn, gnu::cold, gnu::noinline]] void fatal(const std::exception &thrown,
                                                  const char *call) noexcept;

// This PE failed to start; last_message() has the reason. Other PEs may already have started and
// would wait for it.
[[noreturn, gnu::cold]] void fatal_start(const char *call, const onesided::job &job) noexcept;

// From now on, calls are reported as coming after the last finalize, not before the first init.
void note_end() noexcept;
bool has_ended() noexcept;

}  // namespace tanada::shmem
