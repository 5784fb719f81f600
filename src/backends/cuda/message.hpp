// backends/cuda/message.hpp: the text of a status that the plugin returns, kept for each thread.
#pragma once

#include <tanada/status.h>

namespace tanada::backends::cuda {

// Keeps the message for last_message() and returns `code`.
[[gnu::format(printf, 2, 3)]] tnd_status set_error(tnd_status code, const char *format, ...);
const char *last_message();

}  // namespace tanada::backends::cuda
