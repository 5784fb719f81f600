// deferred_error.cc: formats the message of a failed call.
#include "products/comex/deferred_error.hpp"

#include "core/base/bounded_text.hpp"

namespace tanada::comex {

status set_error_text(status code, fmt::string_view format, fmt::format_args arguments) noexcept {
  set_last_message(bounded_text{format, arguments}.view());
  return code;
}

}  // namespace tanada::comex
