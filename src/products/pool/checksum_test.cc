// Tests of checksums against published values.
#include "products/pool/checksum.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tanada::pool {
namespace {

// The check values of the two algorithms: RFC 3720 B.4's CRC of "123456789", and xxHash's value for
// empty input with seed 0.
TEST(checksum, has_the_published_values) {
  EXPECT_EQ(checksum_of(checksum_kind::crc32c, "123456789", 9), 0xE3069283u);
  EXPECT_EQ(checksum_of(checksum_kind::xxh3, "", 0), 0x2D06800538D394C2u);
  EXPECT_EQ(checksum_of(checksum_kind::none, "123456789", 9), 0u);
}

TEST(checksum, parts_are_as_good_as_the_whole) {
  std::vector<char> bytes(200'000), copy(bytes.size());
  for (size_t i = 0; i < bytes.size(); i++)
    bytes[i] = char(i * 131 >> 3);
  for (auto const kind : {checksum_kind::crc32c, checksum_kind::xxh3}) {
    checksum sum{kind};
    for (size_t offset = 0, step = 1; offset < bytes.size(); offset += step, step = step * 3 + 1) {
      step = std::min(step, bytes.size() - offset);
      copy_and_add(copy.data() + offset, bytes.data() + offset, step, sum);
    }
    EXPECT_EQ(sum.value(), checksum_of(kind, bytes.data(), bytes.size()));
    EXPECT_EQ(copy, bytes);
    bytes[77] ^= 1;
    EXPECT_NE(sum.value(), checksum_of(kind, bytes.data(), bytes.size()));
    bytes[77] ^= 1;
  }
}

TEST(checksum, crcs_of_parts_join_to_that_of_the_whole) {
  std::vector<char> bytes(100'000);
  for (size_t i = 0; i < bytes.size(); i++)
    bytes[i] = char(i * 131 >> 3);
  for (size_t const cut : {0u, 1u, 255u, 256u, 65'537u, 100'000u}) {
    checksum sum{checksum_kind::crc32c};
    sum.add(bytes.data(), cut);
    sum.join(checksum_of(checksum_kind::crc32c, bytes.data() + cut, bytes.size() - cut),
             bytes.size() - cut);
    EXPECT_EQ(sum.value(), checksum_of(checksum_kind::crc32c, bytes.data(), bytes.size())) << cut;
  }
}

}  // namespace
}  // namespace tanada::pool
