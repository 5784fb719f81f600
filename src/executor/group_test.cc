#include <tanada/device/detail/simt/group.hpp>

#include <gtest/gtest.h>
#include <tanada/status.h>

#include <vector>

#include <tanada/device/detail/simt/launch.hpp>

namespace {

using namespace tanada;

// A kernel as a user would write it: the group is a type.
template <class Group>
TND_KERNEL void broadcast_kernel(u64 *results, u32 *ranks, u32 *sizes, u32 rounds) {
  Group const group;
  u64 const thread = simt::global_thread_rank();
  u64 sum = 0;
  for (u32 round = 0; round < rounds; round++)
    sum += group.broadcast(group.rank() == 0 ? thread + round : 0);
  results[thread] = sum;
  ranks[thread] = group.rank();
  sizes[thread] = group.size();
}

template <class Group>
void check_broadcast(u32 block_size, u32 group_size_max) {
  constexpr u32 blocks = 6, rounds = 5;
  u32 const count = blocks * block_size;
  std::vector<u64> results(count);
  std::vector<u32> ranks(count), sizes(count);
  simt::launch(blocks,
               block_size,
               broadcast_kernel<Group>,
               results.data(),
               ranks.data(),
               sizes.data(),
               rounds);
  ASSERT_TRUE(simt::host::synchronize(TND_NO_DEADLINE));
  for (u32 i = 0; i < count; i++) {
    u32 const in_block = i % block_size, rank = in_block % group_size_max,
              left_value = block_size - (in_block - rank);
    ASSERT_EQ(ranks[i], rank) << i;
    ASSERT_EQ(sizes[i], left_value < group_size_max ? left_value : group_size_max) << i;
    ASSERT_EQ(results[i], u64(i - rank) * rounds + rounds * (rounds - 1) / 2) << i;
  }
}

TEST(this_thread, broadcasts_to_itself) {
  check_broadcast<this_thread>(70, 1);
}
TEST(this_warp, broadcasts_from_its_first_lane) {
  check_broadcast<this_warp>(96, 32);
}
TEST(this_warp, may_be_partial) {
  check_broadcast<this_warp>(70, 32);
}
TEST(this_block, broadcasts_from_its_first_thread) {
  check_broadcast<this_block>(200, 1024);
}
TEST(this_block, may_have_1024_threads) {
  check_broadcast<this_block>(1024, 1024);
}

TEST(this_block, sync_orders_memory) {
  std::vector<u32> values(4 * 128), errors(4 * 128);
  simt::host::launch(4, 128, [v = values.data(), e = errors.data()] {
    this_block const group;
    u64 const thread = simt::global_thread_rank();
    u32 const base = u32(thread) - group.rank();
    v[thread] = u32(thread);
    group.sync();
    u32 const other_lane = base + (group.rank() + 77) % 128;
    if (v[other_lane] != other_lane)
      e[thread]++;
  });
  ASSERT_TRUE(simt::host::synchronize(TND_NO_DEADLINE));
  for (u32 error : errors)
    EXPECT_EQ(error, 0u);
}

}  // namespace
