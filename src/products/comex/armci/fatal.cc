// products/comex/armci/fatal.cc: prints errors and ends the job.
#include "products/comex/armci/fatal.hpp"

#include <cstdio>
#include <cstdlib>

#include "core/base/bounded_text.hpp"
#include <compat/comex/comex.h>

namespace tanada::comex::armci {
namespace {

// Exit code of a program that made an invalid call.
constexpr int exit_code = 1;

}  // namespace

void fatal_text(const char *call, fmt::string_view format, fmt::format_args arguments) noexcept {
  bounded_text const text{format, arguments};
  bounded_text const line = format_text("{}: {}", call, text.view());
  std::fflush(stdout);
  if (comex_initialized())
    comex_error(line.c_str(), exit_code);
  std::fprintf(stderr, "%s\n", line.c_str());
  std::_Exit(exit_code);
}

int report_error_text(const char *call,
                      fmt::string_view format,
                      fmt::format_args arguments) noexcept {
  int rank = -1;
  if (comex_initialized())
    comex_group_rank(COMEX_GROUP_WORLD, &rank);
  std::fprintf(stderr, "%s: rank %d: %s\n", call, rank, bounded_text{format, arguments}.c_str());
  return COMEX_FAILURE;
}

void require_ok(const char *call, const char *inner, int code) noexcept {
  if (code != COMEX_SUCCESS)
    fatal(call, "{} failed: {}", inner, code);
}

void require_mpi_ok(const char *call, const char *inner, int code) noexcept {
  if (code == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fatal(call, "{} failed: {}", inner, text);
}

}  // namespace tanada::comex::armci
