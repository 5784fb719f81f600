#include "pool/checksum.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace tanada::pool {
namespace {

std::span<const std::byte> bytes_of(const std::string &text) { return std::as_bytes(std::span{text}); }

std::string noise(size_t size) {
  std::mt19937 random{7};
  std::string text(size, '\0');
  for (char &each : text) each = char(random());
  return text;
}

TEST(pool_checksum, known_values) {
  EXPECT_EQ(checksum_of(checksum_kind::crc32c, bytes_of("123456789")), 0xE3069283u);  // RFC 3720's check value
  EXPECT_EQ(checksum_of(checksum_kind::crc32c, bytes_of(std::string(32, '\0'))), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(checksum_of(checksum_kind::crc32c, {}), 0u);
  EXPECT_EQ(checksum_of(checksum_kind::xxh3, {}), 0x2D06800538D394C2u);
  EXPECT_EQ(checksum_of(checksum_kind::none, bytes_of("123456789")), 0u);
}

TEST(pool_checksum, pieces_and_copies_give_what_the_whole_gives) {
  std::string const text = noise(300'001);
  for (auto const kind : {checksum_kind::none, checksum_kind::crc32c, checksum_kind::xxh3}) {
    uint64_t const whole = checksum_of(kind, bytes_of(text));
    for (size_t const step : {size_t{1}, size_t{63}, size_t{4096}, size_t{32'769}, size_t{1'000'000}}) {
      checksum pieces{kind}, copied{kind};
      std::string target(text.size(), '?');
      for (size_t at = 0; at < text.size(); at += step) {
        auto const part = bytes_of(text).subspan(at, std::min(step, text.size() - at));
        pieces.update(part);
        copied.copy(reinterpret_cast<std::byte *>(target.data()) + at, part);
      }
      ASSERT_EQ(pieces.value(), whole) << step;
      ASSERT_EQ(copied.value(), whole) << step;
      ASSERT_EQ(target, text);
    }
  }
}

TEST(pool_checksum, a_flipped_bit_changes_it) {
  std::string text = noise(5'000);
  for (auto const kind : {checksum_kind::crc32c, checksum_kind::xxh3}) {
    uint64_t const whole = checksum_of(kind, bytes_of(text));
    for (size_t at = 0; at < text.size(); at += 37) {
      text[at] = char(text[at] ^ 1 << at % 8);
      ASSERT_NE(checksum_of(kind, bytes_of(text)), whole) << at;
      text[at] = char(text[at] ^ 1 << at % 8);
    }
  }
}

}  // namespace
}  // namespace tanada::pool
