// backends/cuda/message.hpp: the text of a status that the plugin returns, kept for each thread.
#pragma once

#include <fmt/core.h>
#include <tanada/status.h>

namespace tanada::backends::cuda {

// Keeps the message for last_message() and returns `code`.
tnd_status set_error_text(tnd_status code, fmt::string_view format, fmt::format_args arguments);
template <class... Arguments>
tnd_status set_error(tnd_status code,
                     fmt::format_string<Arguments...> format,
                     Arguments &&...arguments) {
  return set_error_text(code, format, fmt::make_format_args(arguments...));
}
const char *last_message();

}  // namespace tanada::backends::cuda
