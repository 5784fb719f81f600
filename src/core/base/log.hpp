// core/base/log.hpp: log lines on stderr. The code that detects a problem logs it once. TND_LOG
// sets the level (off, error, warning, info, debug; default warning).
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include <tanada/device/detail/base/status.hpp>

namespace tanada {

enum class log_level { debug, info, warning, error };

// Logs the text if TND_LOG enables the level. Formats are those of fmt and are checked when they
// are compiled. A text is truncated as by bounded_text, and its control characters are escaped.
[[gnu::cold]] void log_text(log_level level,
                            fmt::string_view format,
                            fmt::format_args arguments) noexcept;
template <class... Arguments>
void log(log_level level,
         fmt::format_string<Arguments...> format,
         Arguments &&...arguments) noexcept {
  log_text(level, format, fmt::make_format_args(arguments...));
}

// Keep a message for tnd_last_message() on this thread. `fail` keeps it, logs it as a warning
// unless a message_deferral is active, and returns `code`. A failing host call reads: return
// fail(status::no_entry, "...", ...).
void set_last_message(std::string_view message);
const std::string &last_message();
[[gnu::cold]] status fail_text(status code, fmt::string_view format, fmt::format_args arguments);
template <class... Arguments>
status fail(status code, fmt::format_string<Arguments...> format, Arguments &&...arguments) {
  return fail_text(code, format, fmt::make_format_args(arguments...));
}

}  // namespace tanada
