// products/shmem/fatal.hpp: how a call ends that can return no error: one line that names call, PE
// and address, then the job is over.
#pragma once

#include <exception>

#include "products/shmem/runtime.hpp"

namespace tanada::shmem {

// "shmem_int_put: PE 3: address 0x... (8 bytes at PE 1) is not symmetric: heap 0x...-0x..., ...".
// Ends the job by the launcher, this process in any case.
[[noreturn, gnu::cold, gnu::noinline, gnu::format(printf, 2, 3)]] void fatal(const char *call,
                                                                             const char *format,
                                                                             ...) noexcept;

// What went wrong in an operation on symmetric memory at `pe` (the number that the program gave).
struct failed_operation {
  const char *call;
  const void *addr;  // the symmetric one
  size_t size;       // bytes
  int pe;
};
[[noreturn, gnu::cold, gnu::noinline]] void fatal(status code,
                                                  const failed_operation &what) noexcept;

// What was thrown within a call: memory that the system does not have, as a rule.
[[noreturn, gnu::cold, gnu::noinline]] void fatal(const std::exception &thrown,
                                                  const char *call) noexcept;

// The start of this PE has failed (last_message says how) when others may have left theirs, and
// would wait for it.
[[noreturn, gnu::cold]] void fatal_start(const char *call, const pgas::job &job) noexcept;

// From now on calls come after the last finalize, not before the first init.
void note_end() noexcept;
bool has_ended() noexcept;

}  // namespace tanada::shmem
