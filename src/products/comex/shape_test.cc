// Strided shapes: merging, limits, and runs.
#include "products/comex/shape.hpp"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace tanada::comex {
namespace {

using blocks = std::vector<std::pair<size_t, size_t>>;

blocks blocks_of(const strided_shape &shape) {
  blocks offsets;
  shape.for_each([&](size_t source, size_t target) { offsets.emplace_back(source, target); });
  return offsets;
}

TEST(shape, levels_without_gaps_are_one_block) {
  int const counts[] = {16, 4, 3}, strides[] = {16, 64};
  auto const shape = strided_shape::from_arguments(counts, strides, strides, 2).value();
  EXPECT_EQ(shape.block_size(), 192u);
  EXPECT_EQ(shape.block_count(), 1u);
  EXPECT_EQ(shape.source_extent(), 192u);
}

TEST(shape, a_gap_on_one_side_keeps_blocks_apart) {
  int const counts[] = {16, 4, 3}, close[] = {16, 64}, wide[] = {32, 128};
  auto const shape = strided_shape::from_arguments(counts, close, wide, 2).value();
  EXPECT_EQ(shape.block_size(), 16u);
  EXPECT_EQ(shape.block_count(), 12u);
  EXPECT_EQ(shape.source_extent(), 192u);
  EXPECT_EQ(shape.target_extent(), 2 * 128 + 3 * 32 + 16u);
}

TEST(shape, counts_of_zero_move_nothing) {
  int const strides[] = {8};
  for (auto const &counts : {std::vector{0, 5}, std::vector{8, 0}}) {
    EXPECT_TRUE(strided_shape::from_arguments(counts, strides, strides, 1).value().is_empty());
  }
}

TEST(shape, strides_of_one_piece_are_not_looked_at) {
  int const counts[] = {8, 1, 3}, strides[] = {-1, 8};
  auto const shape = strided_shape::from_arguments(counts, strides, strides, 2).value();
  EXPECT_EQ(shape.block_size(), 24u);
}

TEST(shape, more_bytes_than_addresses_are_invalid) {
  int const counts[] = {8, 65536, 65536, 65536, 65536}, strides[] = {16, 1 << 20, 1 << 20, 1 << 20};
  EXPECT_EQ(strided_shape::from_arguments(counts, strides, strides, 4).error(), status::invalid);
}

TEST(shape, negative_numbers_and_too_many_levels_are_invalid) {
  int const counts[] = {8, 2}, negative[] = {8, -2}, strides[] = {8}, back[] = {-8};
  EXPECT_EQ(strided_shape::from_arguments(negative, strides, strides, 1).error(), status::invalid);
  EXPECT_EQ(strided_shape::from_arguments(counts, back, strides, 1).error(), status::invalid);
  EXPECT_EQ(strided_shape::from_arguments(counts, strides, back, 1).error(), status::invalid);
  EXPECT_EQ(strided_shape::from_arguments(counts, strides, strides, -1).error(), status::invalid);
  EXPECT_EQ(strided_shape::from_arguments(counts, strides, strides, stride_level_max + 1).error(),
            status::invalid);
}

// The bytes that a shape pairs, by definition: every index of every level.
TEST(shape, random_shapes_pair_the_bytes_of_the_definition) {
  std::mt19937 random{7};
  auto const below = [&](int end) {
    return int(random() % unsigned(end));
  };
  for (int round = 0; round < 2000; round++) {
    int const levels = below(4);
    std::vector<int> counts{1 + below(24)}, source{}, target{};
    int reach_source = counts[0], reach_target = counts[0];
    for (int i = 0; i < levels; i++) {
      counts.push_back(1 + below(4));
      source.push_back(reach_source + below(2) * below(9));
      target.push_back(reach_target + below(2) * below(9));
      reach_source = source.back() * counts.back();
      reach_target = target.back() * counts.back();
    }
    blocks expected{{0, 0}};
    for (int i = levels - 1; i >= 0; i--) {
      blocks more;
      for (auto const &[s, t] : expected) {
        for (int k = 0; k < counts[size_t(i) + 1]; k++) {
          more.emplace_back(s + size_t(k * source[size_t(i)]), t + size_t(k * target[size_t(i)]));
        }
      }
      expected = std::move(more);
    }
    blocks expected_bytes, actual;
    for (auto const &[s, t] : expected) {
      for (int k = 0; k < counts[0]; k++) {
        expected_bytes.emplace_back(s + size_t(k), t + size_t(k));
      }
    }
    auto const shape =
        strided_shape::from_arguments(counts, source.data(), target.data(), levels).value();
    for (auto const &[s, t] : blocks_of(shape)) {
      for (size_t k = 0; k < shape.block_size(); k++) {
        actual.emplace_back(s + k, t + k);
      }
    }
    EXPECT_EQ(actual, expected_bytes) << "round " << round;
    EXPECT_EQ(shape.size(), expected_bytes.size());
    EXPECT_EQ(shape.source_extent(), expected_bytes.back().first + 1);
    EXPECT_EQ(shape.target_extent(), expected_bytes.back().second + 1);
  }
}

// Any part of the packed data equals the bytes of its blocks.
TEST(shape, runs_of_any_part_are_the_bytes_of_its_blocks) {
  std::mt19937 random{3};
  auto const below = [&](size_t end) {
    return size_t(random()) % end;
  };
  for (int round = 0; round < 300; round++) {
    std::vector<int> counts{int(1 + below(9))}, far, near;
    int far_end = counts[0], near_end = counts[0];
    for (size_t i = below(4); i > 0; i--) {
      counts.push_back(int(1 + below(4)));
      far.push_back(far_end + int(below(3)));
      near.push_back(near_end + int(below(3)));
      far_end = far.back() * counts.back();
      near_end = near.back() * counts.back();
    }
    auto const shape =
        strided_shape::from_arguments(counts, near.data(), far.data(), int(far.size())).value();
    blocks wanted, actual;
    shape.for_each([&](size_t s, size_t t) {
      for (size_t i = 0; i < shape.block_size(); i++) {
        wanted.emplace_back(s + i, t + i);
      }
    });
    size_t const begin = below(shape.size()), size = 1 + below(shape.size() - begin);
    shape.for_each_run(begin, size, [&](const block_run &run) {
      for (size_t k = 0; k < run.count; k++) {
        for (size_t i = 0; i < run.size; i++) {
          actual.emplace_back(run.source + k * run.source_stride + i,
                              run.target + k * run.target_stride + i);
        }
      }
    });
    ASSERT_EQ(actual,
              blocks(wanted.begin() + ptrdiff_t(begin), wanted.begin() + ptrdiff_t(begin + size)))
        << round;
  }
}

}  // namespace
}  // namespace tanada::comex
