// deferred_error.cc: formats the message of a failed call.
#include "products/comex/deferred_error.hpp"

#include <cstdarg>
#include <cstdio>

namespace tanada::comex {

status set_error(status code, const char *format, ...) noexcept {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  set_last_message(text);
  return code;
}

}  // namespace tanada::comex
