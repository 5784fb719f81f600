// products/comex/armci/fatal.cc: prints errors and ends the job.
#include "products/comex/armci/fatal.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include <compat/comex/comex.h>

namespace tanada::comex::armci {
namespace {

constexpr size_t text_size = 1024;  // bytes of a line, with its terminator

// Exit code of a program that made an invalid call.
constexpr int exit_code = 1;

}  // namespace

void fatal(const char *call, const char *format, ...) noexcept {
  char text[text_size];
  int const prefix_size = std::snprintf(text, text_size, "%s: ", call);
  va_list arguments;
  va_start(arguments, format);
  if (prefix_size > 0 && size_t(prefix_size) < text_size)
    std::vsnprintf(text + prefix_size, text_size - size_t(prefix_size), format, arguments);
  va_end(arguments);
  std::fflush(stdout);
  if (comex_initialized())
    comex_error(text, exit_code);
  std::fprintf(stderr, "%s\n", text);
  std::_Exit(exit_code);
}

int report_error(const char *call, const char *format, ...) noexcept {
  char text[text_size];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, text_size, format, arguments);
  va_end(arguments);
  int rank = -1;
  if (comex_initialized())
    comex_group_rank(COMEX_GROUP_WORLD, &rank);
  std::fprintf(stderr, "%s: rank %d: %s\n", call, rank, text);
  return COMEX_FAILURE;
}

void require_ok(const char *call, const char *inner, int code) noexcept {
  if (code != COMEX_SUCCESS)
    fatal(call, "%s failed: %d", inner, code);
}

void require_mpi_ok(const char *call, const char *inner, int code) noexcept {
  if (code == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fatal(call, "%s failed: %s", inner, text);
}

}  // namespace tanada::comex::armci
