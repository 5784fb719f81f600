// Tests of bulk copies and checksums.
#include "products/pool/bulk.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tanada::pool {
namespace {

std::vector<std::byte> bytes_of(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; i++)
    bytes[i] = std::byte(i * 2654435761u >> 11);
  return bytes;
}

// Uneven parts that together cover the whole target.
std::vector<copy_part> parts_of(std::vector<std::byte> &target,
                                const std::vector<std::byte> &source) {
  std::vector<copy_part> parts;
  for (size_t offset = 0, size = 3; offset < source.size(); offset += size, size = size * 5 + 1) {
    size = std::min(size, source.size() - offset);
    parts.push_back({target.data() + offset, source.data() + offset, size});
  }
  return parts;
}

TEST(bulk, copies_and_sums_as_one_thread_does) {
  for (unsigned const idle : {0u, 3u}) {
    seams::team helpers{bulk_helper_count_max, [idle] {
                          return idle;
                        }};
    for (size_t const size :
         {size_t{1000}, size_t{5} << 20, (size_t{9} << 20) + 12345, (size_t{33} << 20) + 1}) {
      auto const source = bytes_of(size);
      for (auto const kind : {checksum_kind::none, checksum_kind::crc32c, checksum_kind::xxh3}) {
        for (auto const reader : {first_reader::caller, first_reader::others}) {
          std::vector<std::byte> target(size);
          checksum sum{kind}, again{kind};
          copy_bulk(helpers, parts_of(target, source), reader, sum);
          ASSERT_TRUE(target == source) << size;
          ASSERT_EQ(sum.value(), checksum_of(kind, source)) << size;
          std::vector<iovec> stored{{target.data(), 777}, {target.data() + 777, size - 777}};
          add_bulk(helpers, stored, again);
          ASSERT_EQ(again.value(), sum.value()) << size;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tanada::pool
