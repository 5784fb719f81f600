// core/base/bounded_text.hpp: a formatted text of limited size, for log lines and status texts.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <string_view>

namespace tanada {

// Formats into its own storage. A longer text is truncated to `size_max` bytes. A text that cannot
// be formatted, for example because a string is null, is replaced by its format: reporting a
// failure must not fail.
class bounded_text {
 public:
  static constexpr size_t size_max = 1023;  // bytes

  bounded_text(fmt::string_view format, fmt::format_args arguments) noexcept;

  std::string_view view() const noexcept {
    return {bytes_, size_};
  }
  const char *c_str() const noexcept {
    return bytes_;
  }

 private:
  char bytes_[size_max + 1];  // terminated
  size_t size_ = 0;
};

template <class... Arguments>
bounded_text format_text(fmt::format_string<Arguments...> format,
                         Arguments &&...arguments) noexcept {
  return {format, fmt::make_format_args(arguments...)};
}

}  // namespace tanada
