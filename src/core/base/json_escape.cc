// Text as JSON has it. core has no JSON library.
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "core/base/log_format.hpp"

namespace tanada {
namespace {

// The forms of UTF-8: the first byte's fixed bits, and the smallest code point of that size.
struct utf8_form {
  uint8_t mask, bits;
  uint32_t code_min;
};
constexpr utf8_form forms[] = {
    {0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
constexpr uint32_t code_max = 0x10ffff, surrogate_min = 0xd800, surrogate_max = 0xdfff;

// The bytes of the UTF-8 character that the text begins with; 0 if its bytes are no character.
size_t character_size(std::string_view text) {
  auto const byte_at = [text](size_t i) {
    return uint32_t(static_cast<unsigned char>(text[i]));
  };
  size_t size = 0;
  while (size < std::size(forms) && (byte_at(0) & forms[size].mask) != forms[size].bits)
    size++;
  if (size++ == std::size(forms) || text.size() < size)
    return 0;
  utf8_form const form = forms[size - 1];
  uint32_t code = byte_at(0) & ~uint32_t{form.mask};
  for (size_t i = 1; i < size; i++) {
    if ((byte_at(i) & 0xc0) != 0x80)
      return 0;
    code = code << 6 | (byte_at(i) & 0x3f);
  }
  bool const is_surrogate = code >= surrogate_min && code <= surrogate_max;
  return code < form.code_min || code > code_max || is_surrogate ? 0 : size;
}

std::string hex_of(char byte) {
  static constexpr char digits[] = "0123456789ABCDEF";
  auto const value = static_cast<unsigned char>(byte);
  return {digits[value >> 4], digits[value & 15]};
}

}  // namespace

std::string json_escaped(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  while (!text.empty()) {
    size_t const size = character_size(text);
    char const first = text[0];
    if (size == 0)
      escaped += "\\\\x" + hex_of(first);
    else if (size == 1 && (first == '"' || first == '\\'))
      escaped += std::string{'\\', first};
    else if (size == 1 && static_cast<unsigned char>(first) < 0x20)
      escaped += "\\u00" + hex_of(first);
    else
      escaped += text.substr(0, size);
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return escaped;
}

}  // namespace tanada
