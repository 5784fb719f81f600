#include "products/comex/armci/fatal.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include <compat/comex/comex.h>

namespace tanada::comex::armci {
namespace {

constexpr size_t text_size = 1024;  // bytes of the line, its end included

// What a program ends with that has called wrongly.
constexpr int exit_code = 1;

}  // namespace

void fatal(const char *call, const char *format, ...) noexcept {
  char text[text_size];
  int const head = std::snprintf(text, text_size, "%s: ", call);
  va_list arguments;
  va_start(arguments, format);
  if (head > 0 && size_t(head) < text_size)
    std::vsnprintf(text + head, text_size - size_t(head), format, arguments);
  va_end(arguments);
  std::fflush(stdout);
  if (comex_initialized())
    comex_error(text, exit_code);
  std::fprintf(stderr, "%s\n", text);
  std::_Exit(exit_code);
}

int refuse(const char *call, const char *format, ...) noexcept {
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

void need(const char *call, const char *inner, int code) noexcept {
  if (code != COMEX_SUCCESS)
    fatal(call, "%s has failed: %d", inner, code);
}

void need_mpi(const char *call, const char *inner, int code) noexcept {
  if (code == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fatal(call, "%s has failed: %s", inner, text);
}

}  // namespace tanada::comex::armci
