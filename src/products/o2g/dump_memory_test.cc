// Goal: large blocks come back, whole and never to two at a time, and no more is kept than is said.
// Method: random sizes, each block filled with a number of its own.
#include "products/o2g/dump_memory.hpp"

#include <gtest/gtest.h>

#include <random>

namespace tanada::o2g {
namespace {

constexpr uint64_t mib = 1 << 20;

TEST(dump_memory, a_block_comes_back_for_a_message_of_about_its_size) {
  dump_memory memory;
  void *const first = memory.take(mib);
  memory.give(first, mib);
  EXPECT_GT(memory.kept_size(), mib);
  EXPECT_EQ(memory.take(mib - 1000), first);
  EXPECT_EQ(memory.kept_size(), 0u);
  memory.give(first, mib - 1000);
  void *const small = memory.take(mib / 4);
  EXPECT_NE(small, first);
  memory.give(small, mib / 4);
}

TEST(dump_memory, keeps_no_more_than_it_says) {
  dump_memory memory;
  std::vector<void *> all;
  for (int i = 0; i < 20; i++)
    all.push_back(memory.take(6 * mib));
  for (void *const each : all)
    memory.give(each, 6 * mib);
  EXPECT_LE(memory.kept_size(), dump_memory::kept_size_max);
  EXPECT_GT(memory.kept_size(), dump_memory::kept_size_max / 2);
}

TEST(dump_memory, nothing_is_in_two_hands) {
  struct held {
    unsigned char *at;
    uint64_t size;
    unsigned char fill;
  };
  dump_memory memory;
  std::mt19937_64 random{1};
  auto const below = [&](uint64_t limit) {
    return random() % limit;
  };
  std::vector<held> all;
  for (int i = 0; i < 3000; i++) {
    if (all.size() < 16 && below(2) == 0) {
      uint64_t const size = 1 + below(below(2) == 0 ? 256 << 10 : 2 * mib);
      auto *const at = static_cast<unsigned char *>(memory.take(size));
      ASSERT_NE(at, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(at) % alignof(std::max_align_t), 0u);
      all.push_back({at, size, static_cast<unsigned char>(i)});
      at[0] = all.back().fill;
      at[size / 2] = all.back().fill;
      at[size - 1] = all.back().fill;
    } else if (!all.empty()) {
      size_t const which = below(all.size());
      held const gone = all[which];
      ASSERT_EQ(gone.at[0], gone.fill);
      ASSERT_EQ(gone.at[gone.size / 2], gone.fill);
      ASSERT_EQ(gone.at[gone.size - 1], gone.fill);
      memory.give(gone.at, gone.size);
      all.erase(all.begin() + ptrdiff_t(which));
    }
  }
  for (const held &each : all)
    memory.give(each.at, each.size);
}

}  // namespace
}  // namespace tanada::o2g
