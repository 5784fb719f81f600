// products/comex/armci/fatal.hpp: handling of invalid calls. They print a line to stderr that names
// call, rank and values. Then they return a status or, if the call has no status, end the job.
#pragma once

namespace tanada::comex::armci {

// Prints "ARMCI_Group_create: ...", to which comex_error adds the rank, and ends the job.
[[noreturn, gnu::cold, gnu::noinline, gnu::format(printf, 2, 3)]] void fatal(const char *call,
                                                                             const char *format,
                                                                             ...) noexcept;

// Prints "ARMCI_PutS: rank 3: ..." and returns COMEX_FAILURE.
[[gnu::cold, gnu::noinline, gnu::format(printf, 2, 3)]] int report_error(const char *call,
                                                                         const char *format,
                                                                         ...) noexcept;

// Ends the job if the comex.h function `inner` has failed in `call`, which has no status to return.
void require_ok(const char *call, const char *inner, int code) noexcept;

// The same for MPI functions and their codes.
void require_mpi_ok(const char *call, const char *inner, int code) noexcept;

}  // namespace tanada::comex::armci
