#include "products/comex/refusal.hpp"

#include <cstdarg>
#include <cstdio>

namespace tanada::comex {

status refuse(status code, const char *format, ...) noexcept {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  set_last_message(text);
  return code;
}

}  // namespace tanada::comex
