// Tests of the erasure code: every pattern of losses, and odd sizes.
#include "products/pool/erasure_codec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

namespace tanada::pool {
namespace {

using wire::pool::erasure_layout;
using wire::pool::erasure_scheme;

// A group of fragments of these sizes, with parity.
struct group {
  group(const erasure_scheme &wanted, std::vector<size_t> sizes) : scheme{wanted}, codec{wanted} {
    for (size_t const size : sizes) {
      fragments.emplace_back(size);
      for (std::byte &byte : fragments.back())
        byte = std::byte(next() >> 24);
    }
    std::vector<erasure_codec::fragment> const data{fragments.begin(), fragments.end()};
    for (uint32_t i = 0; i < scheme.parity_count; i++) {
      std::vector<std::byte> parity(sizes[0]);
      codec.encode(data, i, parity);
      fragments.push_back(std::move(parity));
    }
  }

  // Rebuilds each fragment that the mask does not have from the first K that it has.
  void expect_rebuilt(uint32_t present) const {
    std::vector<erasure_codec::source> sources;
    for (uint32_t i = 0; i < scheme.width() && sources.size() < scheme.data_count; i++)
      if ((present >> i & 1) != 0)
        sources.push_back({i, fragments[i]});
    for (uint32_t i = 0; i < scheme.width(); i++) {
      if ((present >> i & 1) != 0)
        continue;
      std::vector<std::byte> target(fragments[i].size(), std::byte{0x5A});
      ASSERT_TRUE(codec.rebuild(sources, i, target));
      EXPECT_EQ(target, fragments[i]) << "fragment " << i << " of mask " << present;
    }
  }

  uint32_t next() {
    state = state * 1664525 + 1013904223;
    return state;
  }

  erasure_scheme scheme;
  erasure_codec codec;
  uint32_t state = 12345;
  std::vector<std::vector<std::byte>> fragments;
};

class erasure_schemes : public testing::TestWithParam<erasure_scheme> {};

TEST_P(erasure_schemes, any_parity_count_of_losses_is_rebuilt) {
  erasure_scheme const scheme = GetParam();
  for (size_t const size : {size_t{1}, size_t{31}, size_t{4096}, size_t{16385}}) {
    group const written{scheme, std::vector<size_t>(scheme.data_count, size)};
    for (uint32_t mask = 0; mask < 1u << scheme.width(); mask++)
      if (std::popcount(mask) >= scheme.data_count)
        written.expect_rebuilt(mask);
  }
}

TEST_P(erasure_schemes, short_and_empty_fragments_count_as_zeros) {
  erasure_scheme const scheme = GetParam();
  std::vector<size_t> sizes(scheme.data_count, 0);
  sizes[0] = 20'001;
  sizes[1] = 777;
  group const written{scheme, sizes};
  for (uint32_t mask = 0; mask < 1u << scheme.width(); mask++)
    if (std::popcount(mask) == scheme.data_count)
      written.expect_rebuilt(mask);
}

INSTANTIATE_TEST_SUITE_P(schemes,
                         erasure_schemes,
                         testing::Values(erasure_scheme{4, 2},
                                         erasure_scheme{2, 1},
                                         erasure_scheme{8, 3}),
                         [](auto const &info) {
                           return std::to_string(info.param.data_count) + "_and_" +
                                  std::to_string(info.param.parity_count);
                         });

TEST(erasure_codec, a_changed_source_gives_another_fragment) {
  group written{{4, 2}, {100, 100, 100, 100}};
  std::vector<std::byte> const lost = written.fragments[0];
  written.fragments[4][50] ^= std::byte{1};
  std::vector<erasure_codec::source> sources;
  for (uint32_t i = 1; i < 5; i++)
    sources.push_back({i, written.fragments[i]});
  std::vector<std::byte> target(100);
  ASSERT_TRUE(written.codec.rebuild(sources, 0, target));
  EXPECT_NE(target, lost);
}

TEST(erasure_codec, sources_that_do_not_suffice_are_refused) {
  group const written{{2, 1}, {10, 10}};
  std::vector<std::byte> target(10);
  erasure_codec::source const first{0, written.fragments[0]}, wrong{3, written.fragments[1]};
  EXPECT_FALSE(written.codec.rebuild({{first}}, 2, target));
  EXPECT_FALSE(written.codec.rebuild({{first, first}}, 2, target));
  EXPECT_FALSE(written.codec.rebuild({{first, wrong}}, 2, target));
}

TEST(erasure_layout, covers_an_object_exactly) {
  for (uint64_t const size : {1, 99, 100, 101, 400, 401, 799, 800, 1234}) {
    erasure_layout const layout{{4, 2}, size, 100};
    uint64_t total = 0, count = 0;
    for (uint64_t i = 0; i < layout.fragment_count(); i++) {
      if (layout.is_parity(i)) {
        EXPECT_EQ(layout.size_of(i), layout.size_of(layout.group_of(i) * 6));
        continue;
      }
      EXPECT_EQ(layout.number_of_data(count++), i);
      total += layout.size_of(i);
    }
    EXPECT_EQ(total, size);
    EXPECT_EQ(layout.fragment_count() % 6, 0u);
  }
}

}  // namespace
}  // namespace tanada::pool
