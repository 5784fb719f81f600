// Escapes control characters in untrusted text.
#include "core/base/escape.hpp"

namespace tanada {

std::string escape_control(std::string_view text) {
  static constexpr char digits[] = "0123456789ABCDEF";
  auto const byte_at = [&](size_t index) {
    return index < text.size() ? static_cast<unsigned char>(text[index]) : 0u;
  };
  std::string escaped;
  escaped.reserve(text.size());
  size_t control_end = 0;
  for (size_t i = 0; i < text.size(); i++) {
    unsigned const byte = byte_at(i), next = byte_at(i + 1);
    if (byte < 0x20 || byte == 0x7f)
      control_end = i + 1;
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0)
      control_end = i + 2;
    if (i >= control_end) {
      escaped += text[i];
      continue;
    }
    escaped += "\\x";
    escaped += digits[byte >> 4];
    escaped += digits[byte & 15];
  }
  return escaped;
}

}  // namespace tanada
