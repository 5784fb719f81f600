// cmd/tanada/text.hpp: numbers and names as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tanada::command {

// "512 B", "1.5 MiB".
std::string size_text(double size);

// "1 object", "2 objects".
std::string count_text(uint64_t count, const char *of);

// "850.0 us", "1.2 s", "4:05", "2:03:09".
std::string duration_text(double seconds);

// UTC: "2026-01-31 23:59:59".
std::string time_text(uint64_t since_1970_ns);

// A name on a line of its own: bytes that could end the line, or command a terminal, are shown as
// \xHH.
std::string printable(std::string_view text);

}  // namespace tanada::command
