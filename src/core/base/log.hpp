// core/base/log.hpp: one line on stderr for each thing that goes wrong, said where it is first
// known. The level comes from TND_LOG (off, error, warning, info, debug; default warning).
#pragma once

#include <string>
#include <string_view>

#include <tanada/device/detail/base/status.hpp>

namespace tanada {

enum class log_level { debug, info, warning, error };

[[gnu::format(printf, 2, 3)]] void log(log_level level, const char *format, ...) noexcept;

// Keep a message for tnd_last_message() on this thread. `fail` keeps it and hands `code` back, so
// that a failing host call reads: return fail(status::no_entry, "...", ...).
void set_last_message(std::string_view message);
const std::string &last_message();
[[gnu::format(printf, 2, 3)]] status fail(status code, const char *format, ...);

}  // namespace tanada
