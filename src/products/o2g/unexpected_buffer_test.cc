// Goal: large blocks are reused whole and never by two owners, and the cache respects its limit.
// Method: random sizes, each block filled with its own number.
#include "products/o2g/unexpected_buffer.hpp"

#include <gtest/gtest.h>

#include <random>

namespace tanada::o2g {
namespace {

constexpr uint64_t mib = 1 << 20;

TEST(dump_memory, a_block_comes_back_for_a_message_of_about_its_size) {
  unexpected_buffer memory;
  void *const first = memory.allocate(mib);
  memory.release(first, mib);
  EXPECT_GT(memory.cached_size(), mib);
  EXPECT_EQ(memory.allocate(mib - 1000), first);
  EXPECT_EQ(memory.cached_size(), 0u);
  memory.release(first, mib - 1000);
  void *const small = memory.allocate(mib / 4);
  EXPECT_NE(small, first);
  memory.release(small, mib / 4);
}

TEST(dump_memory, keeps_no_more_than_it_says) {
  unexpected_buffer memory;
  std::vector<void *> blocks;
  for (int i = 0; i < 20; i++)
    blocks.push_back(memory.allocate(6 * mib));
  for (void *const block : blocks)
    memory.release(block, 6 * mib);
  EXPECT_LE(memory.cached_size(), unexpected_buffer::cached_size_max);
  EXPECT_GT(memory.cached_size(), unexpected_buffer::cached_size_max / 2);
}

TEST(dump_memory, nothing_is_in_two_hands) {
  struct filled_block {
    unsigned char *address;
    uint64_t size;
    unsigned char fill;
  };
  unexpected_buffer memory;
  std::mt19937_64 random{1};
  auto const below = [&](uint64_t limit) {
    return random() % limit;
  };
  std::vector<filled_block> blocks;
  for (int i = 0; i < 3000; i++) {
    if (blocks.size() < 16 && below(2) == 0) {
      uint64_t const size = 1 + below(below(2) == 0 ? 256 << 10 : 2 * mib);
      auto *const address = static_cast<unsigned char *>(memory.allocate(size));
      ASSERT_NE(address, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(address) % alignof(std::max_align_t), 0u);
      blocks.push_back({address, size, static_cast<unsigned char>(i)});
      address[0] = blocks.back().fill;
      address[size / 2] = blocks.back().fill;
      address[size - 1] = blocks.back().fill;
    } else if (!blocks.empty()) {
      size_t const index = below(blocks.size());
      filled_block const freed = blocks[index];
      ASSERT_EQ(freed.address[0], freed.fill);
      ASSERT_EQ(freed.address[freed.size / 2], freed.fill);
      ASSERT_EQ(freed.address[freed.size - 1], freed.fill);
      memory.release(freed.address, freed.size);
      blocks.erase(blocks.begin() + ptrdiff_t(index));
    }
  }
  for (const filled_block &block : blocks)
    memory.release(block.address, block.size);
}

}  // namespace
}  // namespace tanada::o2g
