#include "npy.hpp"

#include <gtest/gtest.h>

namespace tanada::command {
namespace {

std::string header_of(const std::string &words, char version = 1) {
  std::string text = words;
  std::string const prefix = "\x93NUMPY";
  std::size_t const size = text.size() + 1;
  std::string const length = version == 1 ? std::string{char(size & 255), char(size >> 8)}
                                          : std::string{char(size & 255), char(size >> 8), 0, 0};
  return prefix + std::string{version, 0} + length + text + "\n";
}

TEST(npy, header_of_a_cube) {
  std::string const header =
      header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4, 5), }");
  auto parsed = npy_parse(header);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().shape, (std::vector<uint64_t>{3, 4, 5}));
  EXPECT_EQ(parsed.value().data_offset, header.size());
  EXPECT_EQ(parsed.value().size(), header.size() + 4 * 60);
}

TEST(npy, later_versions_and_doubles) {
  std::string const header =
      header_of("{'shape': (7,), 'fortran_order': False, 'descr': '<f8'}", 3);
  auto parsed = npy_parse(header);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().shape, (std::vector<uint64_t>{7}));
  EXPECT_EQ(parsed.value().size(), header.size() + 8 * 7);
}

TEST(npy, what_it_does_not_draw) {
  EXPECT_EQ(
      npy_parse(header_of("{'descr': '<i4', 'fortran_order': False, 'shape': (3, 4), }")).error(),
      status::not_supported);
  EXPECT_EQ(
      npy_parse(header_of("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }")).error(),
      status::not_supported);
}

TEST(npy, every_cut_of_a_header_is_refused) {
  std::string const header =
      header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4, 5), }");
  for (std::size_t size = 0; size < header.size(); size++)
    EXPECT_EQ(npy_parse(std::string_view(header).substr(0, size)).error(), status::corrupt) << size;
}

TEST(npy, malformed_headers) {
  for (const char *words :
       {"",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3 x)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3, 4, 5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (16777216, 16777216, 16777216, "
        "16777216)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'shape':",
        "{'descr'",
        "{'shape': (3"})
    EXPECT_EQ(npy_parse(header_of(words)).error(), status::corrupt) << words;
  std::string wrong = header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4, 5), }");
  wrong[0] = 'N';
  EXPECT_EQ(npy_parse(wrong).error(), status::corrupt);
}

}  // namespace
}  // namespace tanada::command
