#include "base/escape.hpp"

namespace tanada {

std::string escape_control(std::string_view text) {
  static constexpr char digits[] = "0123456789ABCDEF";
  std::string escaped;
  escaped.reserve(text.size());
  for (char const character : text) {
    auto const byte = static_cast<unsigned char>(character);
    if (byte >= 0x20 && byte != 0x7f) {
      escaped += character;
      continue;
    }
    escaped += "\\x";
    escaped += digits[byte >> 4];
    escaped += digits[byte & 15];
  }
  return escaped;
}

}  // namespace tanada
