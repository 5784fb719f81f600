#include "seams/os/ledger.hpp"

#include <gtest/gtest.h>

#include <map>

namespace tanada::port {
namespace {

TEST(ledger, fits_best_and_lowest) {
  ledger books{1024, 16};
  auto const a = books.allocate(64, 16), b = books.allocate(16, 16), c = books.allocate(32, 16),
             d = books.allocate(16, 16);
  ASSERT_TRUE(a && b && c && d);
  EXPECT_TRUE(books.release(*a) && books.release(*c));
  EXPECT_EQ(books.allocate(17, 16), c);  // 32 bytes are enough, 64 are not touched
  EXPECT_EQ(books.allocate(64, 16), a);
}

TEST(ledger, neighbours_join) {
  ledger books{1000, 16};  // 8 bytes are left over
  auto const a = books.allocate(320, 16), b = books.allocate(320, 16), c = books.allocate(352, 16);
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(books.free_size(), 0u);
  EXPECT_TRUE(books.release(*a) && books.release(*c) && books.release(*b));
  EXPECT_EQ(books.allocate(992, 16), 0u);
}

TEST(ledger, what_an_alignment_leaves_is_used) {
  ledger books{4096, 16};
  ASSERT_EQ(books.allocate(16, 16), 0u);
  ASSERT_EQ(books.allocate(16, 1024), 1024u);
  EXPECT_EQ(books.allocate(1008, 16), 16u);
  EXPECT_EQ(books.free_size(), 4096u - 16 - 16 - 1008);
  EXPECT_FALSE(books.allocate(16, 4096).has_value());
}

TEST(ledger, a_gap_that_its_beginning_spoils_is_passed_by) {
  ledger books{512, 16};
  ASSERT_EQ(books.allocate(16, 16), 0u);
  ASSERT_EQ(books.allocate(128, 16), 16u);
  ASSERT_EQ(books.allocate(16, 16), 144u);
  ASSERT_TRUE(
      books.release(16));  // 128 bytes from 16 on: none of them begin at 128 and are as many
  EXPECT_EQ(books.allocate(128, 128), 256u);
}

TEST(ledger, resizes_in_place_or_not_at_all) {
  ledger books{256, 16};
  ASSERT_EQ(books.allocate(32, 16), 0u);
  ASSERT_EQ(books.allocate(32, 16), 32u);
  EXPECT_FALSE(books.resize(0, 33));
  EXPECT_TRUE(books.resize(32, 224));
  EXPECT_FALSE(books.resize(32, 225));
  EXPECT_TRUE(books.resize(32, 1));
  EXPECT_EQ(books.size_of(32), 16u);
  EXPECT_EQ(books.free_size(), 208u);
  EXPECT_FALSE(books.resize(16, 16));
  EXPECT_FALSE(books.resize(32, 0));
  EXPECT_FALSE(books.resize(32, SIZE_MAX));
}

TEST(ledger, never_gives_a_byte_twice) {
  constexpr size_t size = 1 << 16;
  ledger books{size, 64};
  std::map<size_t, size_t> pieces;  // place, end
  size_t taken = 0;
  uint64_t random = 7;
  for (int i = 0; i < 20000; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    if ((random >> 62) == 0 && !pieces.empty()) {
      auto const which = std::next(pieces.begin(), ptrdiff_t((random >> 33) % pieces.size()));
      taken -= which->second - which->first;
      ASSERT_TRUE(books.release(which->first));
      pieces.erase(which);
      continue;
    }
    size_t const bytes = 1 + (random >> 33) % 5000, alignment = size_t{1} << ((random >> 48) % 12);
    auto const at = books.allocate(bytes, alignment);
    if (!at)
      continue;
    size_t const end = *at + *books.size_of(*at);
    auto const next = pieces.lower_bound(*at);
    ASSERT_TRUE(end <= size && *at % alignment == 0 && *at % 64 == 0);
    ASSERT_TRUE(next == pieces.end() || end <= next->first);
    ASSERT_TRUE(next == pieces.begin() || std::prev(next)->second <= *at);
    pieces.emplace(*at, end);
    taken += end - *at;
    ASSERT_EQ(books.free_size(), size - taken);
  }
}

}  // namespace
}  // namespace tanada::port
