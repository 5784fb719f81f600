// cmd/tanada/text.hpp: formats numbers and names for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tanada::command {

// "512 B", "1.5 MiB".
std::string size_text(double size);

// "1 object", "2 objects".
std::string count_text(uint64_t count, const char *noun);

// "850.0 us", "1.2 s", "4:05", "2:03:09".
std::string duration_text(double seconds);

// UTC: "2026-01-31 23:59:59".
std::string time_text(uint64_t since_1970_ns);

// Makes a name safe to print on a line: bytes that could end the line or control a terminal become
// \xHH.
std::string printable(std::string_view text);

}  // namespace tanada::command
