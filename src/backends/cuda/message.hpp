// backends/cuda/message.hpp: the reason behind a status of the plugin, kept a thread.
#pragma once

#include <tanada/status.h>

namespace tanada::port::cuda {

// Keep the message for last_message() and return `code`.
[[gnu::format(printf, 2, 3)]] tnd_status refuse(tnd_status code, const char *format, ...);
const char *last_message();

}  // namespace tanada::port::cuda
