// products/comex/armci/fatal.hpp: handling of invalid calls. They print a line to stderr that names
// call, rank and values. Then they return a status or, if the call has no status, end the job.
#pragma once

#include <fmt/core.h>

namespace tanada::comex::armci {

// Prints "ARMCI_Group_create: ...", to which comex_error adds the rank, and ends the job.
[[noreturn, gnu::cold]] void fatal_text(const char *call,
                                        fmt::string_view format,
                                        fmt::format_args arguments) noexcept;
template <class... Arguments>
[[noreturn]] void fatal(const char *call,
                        fmt::format_string<Arguments...> format,
                        Arguments &&...arguments) noexcept {
  fatal_text(call, format, fmt::make_format_args(arguments...));
}

// Prints "ARMCI_PutS: rank 3: ..." and returns COMEX_FAILURE.
[[gnu::cold]] int report_error_text(const char *call,
                                    fmt::string_view format,
                                    fmt::format_args arguments) noexcept;
template <class... Arguments>
int report_error(const char *call,
                 fmt::format_string<Arguments...> format,
                 Arguments &&...arguments) noexcept {
  return report_error_text(call, format, fmt::make_format_args(arguments...));
}

// Ends the job if the comex.h function `inner` has failed in `call`, which has no status to return.
void require_ok(const char *call, const char *inner, int code) noexcept;

// The same for MPI functions and their codes.
void require_mpi_ok(const char *call, const char *inner, int code) noexcept;

}  // namespace tanada::comex::armci
