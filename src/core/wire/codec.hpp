// core/wire/codec.hpp: serialization of messages. Integers are little-endian and unaligned, strings
// have a 16-bit length, lists a 32-bit count. A message lists its fields once, in `fields`, for
// both directions.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tanada/device/detail/base/status.hpp>

namespace tanada::wire {

// Appends values to a buffer. It checks no limits: the caller limits lists and strings before
// encoding.
class encoder {
 public:
  explicit encoder(std::vector<std::byte> &target) : target_{target} {}

  template <std::unsigned_integral T>
  bool operator()(const T &value) {
    append(&value, sizeof value);
    return true;
  }
  bool operator()(const std::string &text);
  template <size_t Size>
  bool operator()(const std::array<uint8_t, Size> &bytes) {
    append(bytes.data(), Size);
    return true;
  }
  template <class T>
  bool operator()(const std::vector<T> &list) {
    (*this)(uint32_t(list.size()));
    for (const T &item : list)
      put(item);
    return true;
  }
  template <class T>
    requires requires(encoder &self, T &item) { T::fields(self, item); }
  bool operator()(const T &item) {
    return T::fields(*this, item);
  }

 private:
  void append(const void *source, size_t size);
  template <class T>
  void put(const T &item) {
    (*this)(item);
  }
  std::vector<std::byte> &target_;
};

// Reads values from untrusted bytes. After one call has returned false, all later calls do.
class decoder {
 public:
  explicit decoder(std::span<const std::byte> source) : rest_{source} {}

  template <std::unsigned_integral T>
  bool operator()(T &value) {
    return take(&value, sizeof value);
  }
  bool operator()(std::string &text);
  template <size_t Size>
  bool operator()(std::array<uint8_t, Size> &bytes) {
    return take(bytes.data(), Size);
  }
  // An item has at least one byte, so a count larger than the remaining bytes is refused before
  // memory is allocated.
  template <class T>
  bool operator()(std::vector<T> &list) {
    uint32_t count = 0;
    if (!(*this)(count) || count > rest_.size())
      return failed();
    list.clear();
    for (uint32_t i = 0; i < count; i++) {
      T item{};
      if (!(*this)(item))
        return false;
      list.push_back(std::move(item));
    }
    return true;
  }
  template <class T>
    requires requires(decoder &self, T &item) { T::fields(self, item); }
  bool operator()(T &item) {
    return T::fields(*this, item);
  }

  size_t rest_size() const {
    return rest_.size();
  }

 private:
  bool take(void *target, size_t size);
  bool failed();
  std::span<const std::byte> rest_;
  bool bad_ = false;
};

template <class Message>
void encode(const Message &message, std::vector<std::byte> &target) {
  encoder writer{target};
  Message::fields(writer, message);
}

// protocol: the bytes are too short for the message, or longer.
template <class Message>
status decode(std::span<const std::byte> source, Message &message) {
  decoder reader{source};
  return Message::fields(reader, message) && reader.rest_size() == 0 ? status::ok
                                                                     : status::protocol;
}

}  // namespace tanada::wire
