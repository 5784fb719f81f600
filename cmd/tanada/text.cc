// cmd/tanada/text.cc: numbers and names as text for people.
#include "text.hpp"

#include <cstdio>
#include <ctime>

#include "core/base/escape.hpp"

namespace tanada::command {

std::string size_text(double size) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; size >= 1024 && unit + 1 < std::size(units); unit++)
    size /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", size, units[unit]);
  return text;
}

std::string count_text(uint64_t count, const char *noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string duration_text(double seconds) {
  char text[48];
  auto const whole = (unsigned long long)(seconds + 0.5);
  if (seconds < 1e-3)
    std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
  else if (seconds < 1)
    std::snprintf(text, sizeof text, "%.1f ms", seconds * 1e3);
  else if (seconds < 60)
    std::snprintf(text, sizeof text, "%.1f s", seconds);
  else if (whole < 3600)
    std::snprintf(text, sizeof text, "%llu:%02llu", whole / 60, whole % 60);
  else
    std::snprintf(
        text, sizeof text, "%llu:%02llu:%02llu", whole / 3600, whole / 60 % 60, whole % 60);
  return text;
}

std::string time_text(uint64_t since_1970_ns) {
  auto const seconds = std::time_t(since_1970_ns / 1'000'000'000);
  std::tm parts{};
  char text[32];
  if (gmtime_r(&seconds, &parts) == nullptr ||
      std::strftime(text, sizeof text, "%F %T", &parts) == 0)
    return "?";
  return text;
}

std::string printable(std::string_view text) {
  return escape_control(text);
}

}  // namespace tanada::command
