// base64 of keys and values.
#include "backends/etcd/etcd_base64.hpp"

#include <cstdint>

namespace tanada::backends {

namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int digit_value(char digit) {
  if (digit >= 'A' && digit <= 'Z')
    return digit - 'A';
  if (digit >= 'a' && digit <= 'z')
    return digit - 'a' + 26;
  if (digit >= '0' && digit <= '9')
    return digit - '0' + 52;
  if (digit == '+')
    return 62;
  return digit == '/' ? 63 : -1;
}

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    size_t const count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; k++)
      group = group << 8 | (k < count ? uint8_t(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; k++)
      text.push_back(k <= count ? alphabet[group >> (18 - 6 * k) & 63] : '=');
  }
  return text;
}

result<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0)
    return status::protocol;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    size_t count = 4;  // digits of the group
    while (i + 4 == text.size() && count > 2 && text[i + count - 1] == '=')
      count--;
    uint32_t group = 0;
    for (size_t k = 0; k < 4; k++) {
      int const value = k < count ? digit_value(text[i + k]) : 0;
      if (value < 0)
        return status::protocol;
      group = group << 6 | uint32_t(value);
    }
    uint32_t const unused_mask = count == 4 ? 0 : (1u << (8 * (4 - count))) - 1;
    if ((group & unused_mask) != 0)
      return status::protocol;
    for (size_t k = 0; k + 1 < count; k++)
      bytes.push_back(char(group >> (16 - 8 * k) & 255));
  }
  return bytes;
}

}  // namespace tanada::backends
