// Encoding and decoding of strings and raw bytes.
#include "core/wire/codec.hpp"

#include <bit>
#include <cstring>

#include "core/base/assert.hpp"

namespace tanada::wire {

static_assert(std::endian::native == std::endian::little, "integers are copied without conversion");

void encoder::append(const void *source, size_t size) {
  auto const *const bytes = static_cast<const std::byte *>(source);
  target_.insert(target_.end(), bytes, bytes + size);
}

bool encoder::operator()(const std::string &text) {
  TND_ASSERT(text.size() <= UINT16_MAX);
  (*this)(uint16_t(text.size()));
  append(text.data(), text.size());
  return true;
}

bool decoder::failed() {
  bad_ = true;
  rest_ = {};
  return false;
}

bool decoder::take(void *target, size_t size) {
  if (bad_ || size > rest_.size())
    return failed();
  std::memcpy(target, rest_.data(), size);
  rest_ = rest_.subspan(size);
  return true;
}

bool decoder::operator()(std::string &text) {
  uint16_t size = 0;
  if (!(*this)(size) || size > rest_.size())
    return failed();
  text.assign(reinterpret_cast<const char *>(rest_.data()), size);
  rest_ = rest_.subspan(size);
  return true;
}

}  // namespace tanada::wire
