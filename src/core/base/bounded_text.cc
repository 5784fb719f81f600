// Formats texts of limited size.
#include "core/base/bounded_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace tanada {

bounded_text::bounded_text(fmt::string_view format, fmt::format_args arguments) noexcept {
  try {
    size_ = fmt::vformat_to_n(bytes_, size_max, format, arguments).size;
  } catch (const std::exception &) {
    size_ = format.size();
    std::copy_n(format.data(), std::min(size_, size_max), bytes_);
  }
  size_ = std::min(size_, size_max);
  bytes_[size_] = '\0';
}

}  // namespace tanada
