// Formats texts of limited size.
#include "core/base/bounded_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>

namespace tanada {
namespace {

// fmt::format calls it, and most of its users are compiled without its definition. Whether a
// compiler emits that here on its own depends on what it inlines.
[[gnu::used]] std::string (*const emitted_vformat)(fmt::string_view,
                                                   fmt::format_args) = &fmt::vformat;

}  // namespace

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
