// products/comex/deferred_error.hpp: keeps the message of a failed call for the caller to print.
#pragma once

#include <fmt/core.h>

#include "core/base/log.hpp"

namespace tanada::comex {

// Stores the message for last_message() and returns `code`. The code that ends the job or reports
// the failure prints it.
[[gnu::cold]] status set_error_text(status code,
                                    fmt::string_view format,
                                    fmt::format_args arguments) noexcept;
template <class... Arguments>
status set_error(status code,
                 fmt::format_string<Arguments...> format,
                 Arguments &&...arguments) noexcept {
  return set_error_text(code, format, fmt::make_format_args(arguments...));
}

}  // namespace tanada::comex
