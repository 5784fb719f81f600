// products/comex/deferred_error.hpp: keeps the message of a failed call for the caller to print.
#pragma once

#include "core/base/log.hpp"

namespace tanada::comex {

// Stores the message for last_message() and returns `code`. The code that ends the job or reports
// the failure prints it.
[[gnu::cold, gnu::format(printf, 2, 3)]] status set_error(status code, const char *format,
                                                          ...) noexcept;

}  // namespace tanada::comex
