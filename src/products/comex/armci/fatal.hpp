// products/comex/armci/fatal.hpp: what a call does with what it does not accept: a line on stderr
// that names call, rank and values, and then its status, or the end of the job where it has none.
#pragma once

namespace tanada::comex::armci {

// "ARMCI_Group_create: ...", to which comex_error adds the rank, and ends the job.
[[noreturn, gnu::cold, gnu::noinline, gnu::format(printf, 2, 3)]] void fatal(const char *call,
                                                                             const char *format,
                                                                             ...) noexcept;

// "ARMCI_PutS: rank 3: ...". Returns COMEX_FAILURE.
[[gnu::cold, gnu::noinline, gnu::format(printf, 2, 3)]] int refuse(const char *call,
                                                                   const char *format,
                                                                   ...) noexcept;

// Ends the job when a call of comex.h, `inner`, has failed in `call`, which has no status to tell
// it with.
void need(const char *call, const char *inner, int code) noexcept;

// The same for MPI's calls and codes.
void need_mpi(const char *call, const char *inner, int code) noexcept;

}  // namespace tanada::comex::armci
