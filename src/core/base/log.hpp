// core/base/log.hpp: log lines on stderr. The code that detects a problem logs it once. TND_LOG
// sets the level (off, error, warning, info, debug; default warning).
#pragma once

#include <string>
#include <string_view>

#include <tanada/device/detail/base/status.hpp>

namespace tanada {

enum class log_level { debug, info, warning, error };

[[gnu::format(printf, 2, 3)]] void log(log_level level, const char *format, ...) noexcept;

// Keep a message for tnd_last_message() on this thread. `fail` keeps it, logs it as a warning
// unless a message_deferral is active, and returns `code`. A failing host call reads: return
// fail(status::no_entry, "...", ...).
void set_last_message(std::string_view message);
const std::string &last_message();
[[gnu::format(printf, 2, 3)]] status fail(status code, const char *format, ...);

}  // namespace tanada
