// core/base/log_format.hpp: how a process writes its log lines. Libraries leave it as it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tanada {

enum class log_format : uint8_t {
  text,
  json  // an object in each line: time (UTC), level, pid, thread, message
};

// For all later lines of the process.
void set_log_format(log_format format);

// Logs the text at the level info, whatever TND_LOG is: what a daemon does.
void log_notice(std::string_view text) noexcept;

// The text as it stands between the quotes of a JSON string. Bytes that are no UTF-8 become \xHH.
std::string json_escaped(std::string_view text);

}  // namespace tanada
