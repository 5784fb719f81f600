// Tests of page bits against a model.
#include "onesided/swap/pages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tanada::onesided::swap {
namespace {

struct bits_fixture {
  explicit bits_fixture(uint32_t count)
      : words(page_bits::word_count(count)), bits{words.data(), count} {}
  std::vector<page_bits::word> words;
  page_bits bits;
};

TEST(pages, are_those_that_bytes_lie_in) {
  EXPECT_EQ(pages_of(0, 1), (page_run{0, 1}));
  EXPECT_EQ(pages_of(4095, 1), (page_run{0, 1}));
  EXPECT_EQ(pages_of(4095, 2), (page_run{0, 2}));
  EXPECT_EQ(pages_of(8192, 4096), (page_run{2, 1}));
  EXPECT_EQ(pages_of(8192, 0), page_run{});
}

TEST(page_bits, words_hold_the_last_page) {
  EXPECT_EQ(page_bits::word_count(0), 0u);
  EXPECT_EQ(page_bits::word_count(64), 1u);
  EXPECT_EQ(page_bits::word_count(65), 2u);
}

// The model has one bool for each page.
TEST(page_bits, runs_are_those_of_a_model) {
  std::mt19937 random{7};
  for (uint32_t const count : {1u, 63u, 64u, 65u, 200u, 1000u}) {
    bits_fixture tested{count};
    std::vector<bool> model(count);
    for (int step = 0; step < 300; step++) {
      uint32_t const first = random() % count, size = random() % (count - first + 1);
      bool const value = random() % 2 != 0;
      if (value)
        tested.bits.set({first, size});
      else
        tested.bits.clear({first, size});
      std::fill_n(model.begin() + first, size, value);
      page_run const within{uint32_t(random() % count), 0};
      page_run const range{within.first, uint32_t(random() % (count - within.first + 1))};
      std::vector<bool> visited(count);
      uint32_t before = range.first, runs = 0, set = 0;
      for (bool const wanted : {false, true}) {
        before = range.first;
        tested.bits.for_each_run(wanted, range, [&](page_run run) {
          ASSERT_GE(run.first, before);
          ASSERT_GT(run.count, 0u);
          ASSERT_LE(run.end(), range.end());
          // The longest runs: a page of the other value lies between two of them.
          before = run.end() + 1;
          for (uint32_t page = run.first; page < run.end(); page++) {
            ASSERT_EQ(model[page], wanted);
            visited[page] = true;
          }
          runs++;
          if (wanted)
            set += run.count;
        });
      }
      ASSERT_EQ(uint32_t(std::count(visited.begin(), visited.end(), true)), range.count);
      ASSERT_EQ(tested.bits.count_set(range), set);
      for (uint32_t page = 0; page < count; page++) {
        ASSERT_EQ(tested.bits.test(page), model[page]);
      }
    }
  }
}

TEST(pages, zeros_are_found_wherever_the_other_byte_is) {
  std::vector<std::byte> bytes(4 * page_size);
  EXPECT_EQ(find_zero_page(false, bytes.data(), 0, 4), 4u);
  EXPECT_EQ(find_zero_page(true, bytes.data(), 1, 4), 1u);
  for (size_t const position : {size_t{0}, size_t{63}, size_t{64}, size_t{65}, page_size - 1}) {
    bytes[2 * page_size + position] = std::byte{1};
    EXPECT_EQ(find_zero_page(false, bytes.data(), 0, 4), 2u) << position;
    EXPECT_EQ(find_zero_page(true, bytes.data(), 2, 4), 3u) << position;
    bytes[2 * page_size + position] = std::byte{0};
  }
}

}  // namespace
}  // namespace tanada::onesided::swap
