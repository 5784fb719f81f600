#include "seams/os/range_allocator.hpp"

#include <gtest/gtest.h>

#include <map>

namespace tanada::backends {
namespace {

TEST(ledger, fits_best_and_lowest) {
  seams::range_allocator allocator{1024, 16};
  auto const a = allocator.allocate(64, 16), b = allocator.allocate(16, 16),
             c = allocator.allocate(32, 16), d = allocator.allocate(16, 16);
  ASSERT_TRUE(a && b && c && d);
  EXPECT_TRUE(allocator.release(*a) && allocator.release(*c));
  EXPECT_EQ(allocator.allocate(17, 16),
            c);  // the range of 32 bytes is enough; that of 64 is not used
  EXPECT_EQ(allocator.allocate(64, 16), a);
}

TEST(ledger, neighbours_join) {
  seams::range_allocator allocator{1000, 16};  // 8 bytes are unused
  auto const a = allocator.allocate(320, 16), b = allocator.allocate(320, 16),
             c = allocator.allocate(352, 16);
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(allocator.free_size(), 0u);
  EXPECT_TRUE(allocator.release(*a) && allocator.release(*c) && allocator.release(*b));
  EXPECT_EQ(allocator.allocate(992, 16), 0u);
}

TEST(ledger, what_an_alignment_leaves_is_used) {
  seams::range_allocator allocator{4096, 16};
  ASSERT_EQ(allocator.allocate(16, 16), 0u);
  ASSERT_EQ(allocator.allocate(16, 1024), 1024u);
  EXPECT_EQ(allocator.allocate(1008, 16), 16u);
  EXPECT_EQ(allocator.free_size(), 4096u - 16 - 16 - 1008);
  EXPECT_FALSE(allocator.allocate(16, 4096).has_value());
}

TEST(ledger, a_gap_that_its_beginning_spoils_is_passed_by) {
  seams::range_allocator allocator{512, 16};
  ASSERT_EQ(allocator.allocate(16, 16), 0u);
  ASSERT_EQ(allocator.allocate(128, 16), 16u);
  ASSERT_EQ(allocator.allocate(16, 16), 144u);
  ASSERT_TRUE(allocator.release(16));  // 128 bytes from 16: aligned to 128, the range is too small
  EXPECT_EQ(allocator.allocate(128, 128), 256u);
}

TEST(ledger, resizes_in_place_or_not_at_all) {
  seams::range_allocator allocator{256, 16};
  ASSERT_EQ(allocator.allocate(32, 16), 0u);
  ASSERT_EQ(allocator.allocate(32, 16), 32u);
  EXPECT_FALSE(allocator.resize(0, 33));
  EXPECT_TRUE(allocator.resize(32, 224));
  EXPECT_FALSE(allocator.resize(32, 225));
  EXPECT_TRUE(allocator.resize(32, 1));
  EXPECT_EQ(allocator.size_of(32), 16u);
  EXPECT_EQ(allocator.free_size(), 208u);
  EXPECT_FALSE(allocator.resize(16, 16));
  EXPECT_FALSE(allocator.resize(32, 0));
  EXPECT_FALSE(allocator.resize(32, SIZE_MAX));
}

TEST(ledger, never_gives_a_byte_twice) {
  constexpr size_t size = 1 << 16;
  seams::range_allocator allocator{size, 64};
  std::map<size_t, size_t> pieces;  // end by offset
  size_t allocated = 0;
  uint64_t random = 7;
  for (int i = 0; i < 20000; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    if ((random >> 62) == 0 && !pieces.empty()) {
      auto const it = std::next(pieces.begin(), ptrdiff_t((random >> 33) % pieces.size()));
      allocated -= it->second - it->first;
      ASSERT_TRUE(allocator.release(it->first));
      pieces.erase(it);
      continue;
    }
    size_t const bytes = 1 + (random >> 33) % 5000, alignment = size_t{1} << ((random >> 48) % 12);
    auto const offset = allocator.allocate(bytes, alignment);
    if (!offset)
      continue;
    size_t const end = *offset + *allocator.size_of(*offset);
    auto const next = pieces.lower_bound(*offset);
    ASSERT_TRUE(end <= size && *offset % alignment == 0 && *offset % 64 == 0);
    ASSERT_TRUE(next == pieces.end() || end <= next->first);
    ASSERT_TRUE(next == pieces.begin() || std::prev(next)->second <= *offset);
    pieces.emplace(*offset, end);
    allocated += end - *offset;
    ASSERT_EQ(allocator.free_size(), size - allocated);
  }
}

}  // namespace
}  // namespace tanada::backends
