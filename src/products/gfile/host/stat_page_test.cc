// The published statistics page: round trip, limits, and damaged or foreign input.
#include "products/gfile/host/stat_page.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace tanada::gfile {
namespace {

std::vector<std::byte> good_page(size_t file_count) {
  stat_page_header header{};
  header.process = 42;
  header.file_total = uint32_t(file_count);
  std::memset(header.program, 'x', sizeof header.program);  // no zero at the end
  header.statistics.misses = 7;
  std::vector<tnd_gfile_file> files(file_count);
  for (auto &file : files)
    std::memset(file.url, 'u', sizeof file.url);
  return make_stat_page(header, files);
}

TEST(stat_page, what_is_made_is_read) {
  stat_page parsed;
  ASSERT_EQ(parse_stat_page(good_page(3), parsed), status::ok);
  EXPECT_EQ(parsed.header.process, 42u);
  EXPECT_EQ(parsed.header.statistics.misses, 7u);
  ASSERT_EQ(parsed.files.size(), 3u);
  EXPECT_EQ(std::strlen(parsed.files[0].url), sizeof parsed.files[0].url - 1);
  EXPECT_EQ(std::strlen(parsed.header.program), sizeof parsed.header.program - 1);
}

TEST(stat_page, too_many_files_are_cut_and_counted) {
  stat_page parsed;
  ASSERT_EQ(parse_stat_page(good_page(stat_page_file_count_max + 5), parsed), status::ok);
  EXPECT_EQ(parsed.files.size(), stat_page_file_count_max);
  EXPECT_EQ(parsed.header.file_total, stat_page_file_count_max + 5);
}

template <class Value>
std::vector<std::byte> page_with(size_t offset, Value value) {
  auto bytes = good_page(2);
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return bytes;
}

TEST(stat_page, others_and_damaged_ones_are_refused) {
  stat_page parsed;
  EXPECT_EQ(parse_stat_page(page_with<uint64_t>(offsetof(stat_page_header, magic), 1), parsed),
            status::corrupt);
  EXPECT_EQ(parse_stat_page(page_with<uint32_t>(offsetof(stat_page_header, version), 99), parsed),
            status::protocol);
  for (uint32_t count : {3u, stat_page_file_count_max + 1, 0xffffffffu})
    EXPECT_EQ(
        parse_stat_page(page_with<uint32_t>(offsetof(stat_page_header, file_count), count), parsed),
        status::corrupt);
  EXPECT_EQ(parse_stat_page(page_with<uint32_t>(offsetof(stat_page_header, file_size), 1), parsed),
            status::corrupt);
  EXPECT_EQ(
      parse_stat_page(page_with<uint32_t>(offsetof(stat_page_header, header_size), 1), parsed),
      status::corrupt);
}

TEST(stat_page, no_length_is_taken_and_flipped_bits_lead_nowhere) {
  auto const good = good_page(2);
  stat_page parsed;
  for (size_t size = 0; size < good.size(); size++)
    ASSERT_NE(
        parse_stat_page(std::vector<std::byte>(good.begin(), good.begin() + long(size)), parsed),
        status::ok)
        << size;
  std::mt19937_64 random{1};
  for (int i = 0; i < 20000; i++) {
    auto bytes = good;
    for (uint64_t flips = 1 + random() % 4; flips > 0; flips--)
      bytes[random() % bytes.size()] ^= std::byte(1 + random() % 255);
    bytes.resize(random() % 4 == 0 ? random() % bytes.size() : bytes.size());
    if (parse_stat_page(bytes, parsed) != status::ok)
      continue;
    ASSERT_LE(parsed.files.size(),
              (bytes.size() - sizeof(stat_page_header)) / sizeof(tnd_gfile_file));
    for (auto const &file : parsed.files)
      ASSERT_LT(std::strlen(file.url), sizeof file.url);
  }
}

}  // namespace
}  // namespace tanada::gfile
