// products/comex/refusal.hpp: why something was not done, for the call's one line: kept, and not
// said yet.
#pragma once

#include "core/base/log.hpp"

namespace tanada::comex {

// Keeps the message for last_message() and hands `code` back. Who ends the job, or answers the
// caller, prints it.
[[gnu::cold, gnu::format(printf, 2, 3)]] status refuse(status code, const char *format,
                                                       ...) noexcept;

}  // namespace tanada::comex
