#include "core/wire/codec.hpp"

#include <gtest/gtest.h>

namespace tanada::wire {
namespace {

struct sample {
  uint64_t number = 0;
  std::string text;
  std::vector<uint32_t> list;
  std::array<uint8_t, 4> bytes{};
  static bool fields(auto &f, auto &m) {
    return f(m.number) && f(m.text) && f(m.list) && f(m.bytes);
  }
};

std::vector<std::byte> encoded(const sample &message) {
  std::vector<std::byte> bytes;
  encode(message, bytes);
  return bytes;
}

TEST(codec, what_went_in_comes_out) {
  sample const original{0x0123456789ABCDEF, "text", {1, 2, 0xFFFFFFFF}, {1, 2, 3, 4}};
  sample decoded;
  ASSERT_EQ(decode(encoded(original), decoded), status::ok);
  EXPECT_EQ(decoded.number, original.number);
  EXPECT_EQ(decoded.text, original.text);
  EXPECT_EQ(decoded.list, original.list);
  EXPECT_EQ(decoded.bytes, original.bytes);
}

TEST(codec, integers_are_little_endian) {
  std::vector<std::byte> bytes;
  encoder{bytes}(uint32_t{0x04030201});
  for (size_t i = 0; i < 4; i++)
    EXPECT_EQ(std::to_integer<size_t>(bytes[i]), i + 1);
}

TEST(codec, every_shorter_message_is_refused) {
  auto const bytes = encoded({7, "some text", {1, 2, 3}, {}});
  for (size_t size = 0; size < bytes.size(); size++) {
    sample decoded;
    EXPECT_EQ(decode(std::span{bytes}.first(size), decoded), status::protocol) << size;
  }
}

TEST(codec, bytes_behind_the_end_are_refused) {
  auto bytes = encoded({});
  bytes.push_back(std::byte{0});
  sample decoded;
  EXPECT_EQ(decode(bytes, decoded), status::protocol);
}

TEST(codec, a_count_that_lies_sets_no_memory_aside) {
  std::vector<std::byte> bytes;
  encoder writer{bytes};
  writer(uint64_t{0});
  writer(std::string{});
  writer(UINT32_MAX);
  sample original;
  EXPECT_EQ(decode(bytes, original), status::protocol);
  EXPECT_EQ(original.list.capacity(), 0u);
}

}  // namespace
}  // namespace tanada::wire
