#include <tanada/device/detail/simt/thread.hpp>

#include <gtest/gtest.h>
#include <tanada/status.h>

#include <functional>
#include <vector>

#include <tanada/device/detail/simt/launch.hpp>

namespace {

using namespace tanada;

void run(simt::dim3 grid_size, simt::dim3 block_size, std::function<void()> kernel) {
  simt::host::launch(grid_size, block_size, std::move(kernel));
  ASSERT_TRUE(simt::host::synchronize(TND_NO_DEADLINE));
}

TEST(ids, every_thread_of_every_block_runs_once_with_its_own_ids) {
  std::vector<u32> observed(3 * 2 * 4 * 5 * 7 * 2);
  run({3, 2, 4}, {5, 7, 2}, [counts = observed.data()] {
    u32 const x = simt::thread_index_x(), y = simt::thread_index_y(), z = simt::thread_index_z();
    u32 const block_x = simt::block_index_x(), block_y = simt::block_index_y(),
              block_z = simt::block_index_z();
    bool const right =
        x < 5 && y < 7 && z < 2 && x + 5 * (y + 7 * z) == simt::thread_rank_in_block() &&
        block_x + 3 * (block_y + 2 * block_z) == simt::block_rank() && simt::grid_size_x() == 3 &&
        simt::grid_size_y() == 2 && simt::grid_size_z() == 4 && simt::block_size_x() == 5 &&
        simt::block_size_y() == 7 && simt::block_size_z() == 2 && simt::block_thread_count() == 70;
    counts[simt::global_thread_rank()] += right ? 1 : 100;
  });
  for (u32 count : observed)
    ASSERT_EQ(count, 1u);
}

TEST(ids, in_kernel_is_true_in_kernels_only) {
  EXPECT_FALSE(simt::host::in_kernel());
  bool inside = false;
  run(1, 1, [&inside] { inside = simt::host::in_kernel(); });
  EXPECT_TRUE(inside);
  EXPECT_FALSE(simt::host::in_kernel());
}

TEST(block_barrier, orders_1024_threads_over_many_rounds) {
  constexpr u32 count = 1024, rounds = 20;
  std::vector<u32> values(count), errors(count);
  run(1, count, [v = values.data(), e = errors.data()] {
    u32 const rank = simt::thread_rank_in_block();
    for (u32 round = 0; round < rounds; round++) {
      v[rank] = round * count + rank;
      simt::block_barrier();
      u32 const other_index = (rank + 37 * round + 1) % count;
      if (v[other_index] != round * count + other_index)
        e[rank]++;
      simt::block_barrier();
    }
  });
  for (u32 error : errors)
    ASSERT_EQ(error, 0u);
}

TEST(block_barrier, does_not_wait_for_threads_that_left) {
  std::vector<u32> after(96);
  run(1, 96, [a = after.data()] {
    u32 const rank = simt::thread_rank_in_block();
    if (rank % 3 == 0)
      return;
    simt::block_barrier();
    if (rank % 3 == 1)
      return;
    simt::block_barrier();
    a[rank] = 1;
  });
  for (u32 i = 0; i < 96; i++)
    EXPECT_EQ(after[i], i % 3 == 2 ? 1u : 0u) << i;
}

// In each round another thread votes, or none.
TEST(block_any, tells_all_threads_of_one_vote) {
  std::vector<u32> wrong(4 * 100);
  simt::host::launch(4, 100, [to = wrong.data()] {
    for (u32 round = 0; round < 120; round++) {
      bool const is_heard = simt::block_any(simt::thread_rank_in_block() == round);
      if (is_heard != (round < 100))
        to[simt::global_thread_rank()]++;
    }
  });
  ASSERT_TRUE(simt::host::synchronize(TND_NO_DEADLINE));
  for (u32 const value : wrong)
    EXPECT_EQ(value, 0u);
}

TEST(ballot, gives_every_lane_the_votes_of_its_warp) {
  std::vector<u32> got(128);
  run(1, 128, [g = got.data()] {
    u32 const rank = simt::thread_rank_in_block();
    g[rank] = simt::ballot(simt::full_mask, (rank * 7 + rank / 32) % 3 == 0);
  });
  for (u32 i = 0; i < 128; i++) {
    u32 expected = 0;
    for (u32 lane = 0; lane < 32; lane++)
      if (((i / 32 * 32 + lane) * 7 + i / 32) % 3 == 0)
        expected |= 1u << lane;
    EXPECT_EQ(got[i], expected) << i;
  }
}

TEST(ballot, takes_the_lanes_of_a_partial_warp_only) {
  std::vector<u32> got(45);
  run(1, 45, [g = got.data()] {
    g[simt::thread_rank_in_block()] = simt::ballot(simt::full_mask, true);
  });
  for (u32 i = 0; i < 45; i++)
    EXPECT_EQ(got[i], i < 32 ? simt::full_mask : (1u << 13) - 1) << i;
}

TEST(ballot, works_in_the_two_sides_of_a_branch_at_once) {
  std::vector<u32> got(64);
  run(1, 64, [g = got.data()] {
    u32 const rank = simt::thread_rank_in_block(), lane = simt::lane_index();
    u32 sum = 0;
    if (lane < 16) {
      for (u32 i = 0; i < 5; i++)
        sum += simt::ballot(0x0000ffffu, lane % 2 == 0);
    } else {
      for (u32 i = 0; i < 9; i++)
        sum += simt::bit_count(simt::ballot(0xffff0000u, lane % 4 == 0));
    }
    g[rank] = sum;
  });
  for (u32 i = 0; i < 64; i++)
    EXPECT_EQ(got[i], i % 32 < 16 ? 5 * 0x5555u : 9 * 4u) << i;
}

TEST(ballot, does_not_wait_for_lanes_that_left) {
  std::vector<u32> got(32);
  run(1, 32, [g = got.data()] {
    if (simt::lane_index() >= 20)
      return;
    if (simt::lane_index() >= 10)
      simt::pause();
    g[simt::lane_index()] = simt::ballot(simt::full_mask, true);
  });
  for (u32 i = 0; i < 32; i++)
    EXPECT_EQ(got[i], i < 20 ? (1u << 20) - 1 : 0u) << i;
}

TEST(shuffle, hands_a_value_of_any_small_type_to_the_warp) {
  struct pair {
    u16 a;
    u8 b;
  };
  std::vector<u64> got(32 * 3);
  run(1, 32, [g = got.data()] {
    u32 const lane = simt::lane_index();
    g[lane] = simt::shuffle(simt::full_mask, u64(lane) << 40, (lane + 5) % 32);
    g[32 + lane] = u64(simt::shuffle(simt::full_mask, double(lane) / 2, 31 - lane) * 2);
    pair const received = simt::shuffle(simt::full_mask, pair{u16(lane * 100), u8(lane)}, lane ^ 1);
    g[64 + lane] = received.a == received.b * 100 ? received.b : 999;
  });
  for (u64 i = 0; i < 32; i++) {
    EXPECT_EQ(got[i], (i + 5) % 32 << 40);
    EXPECT_EQ(got[32 + i], 31 - i);
    EXPECT_EQ(got[64 + i], i ^ 1);
  }
}

TEST(match_any, groups_lanes_by_value) {
  std::vector<u32> got(32);
  run(1, 32, [g = got.data()] {
    u64 const high = 1ull << 40;
    g[simt::lane_index()] = simt::match_any(simt::full_mask, high * (simt::lane_index() % 4));
  });
  for (u32 i = 0; i < 32; i++)
    EXPECT_EQ(got[i], 0x11111111u << i % 4) << i;
}

TEST(warp_barrier, orders_the_lanes_of_its_mask) {
  std::vector<u32> values(32), errors(32);
  run(1, 32, [v = values.data(), e = errors.data()] {
    u32 const lane = simt::lane_index(), half = lane / 16, mask = 0xffffu << half * 16;
    for (u32 round = 1; round < 30 + half * 11; round++) {
      v[lane] = round;
      simt::warp_barrier(mask);
      if (v[half * 16 + (lane + round) % 16] != round)
        e[lane]++;
      simt::warp_barrier(mask);
    }
  });
  for (u32 error : errors)
    EXPECT_EQ(error, 0u);
}

TEST(atomic_ref, relaxed_updates_tell_what_was_there) {
  u64 word = 12;
  simt::system_atomic<u64> const position(word);
  EXPECT_EQ(position.fetch_and_relaxed(10), 12u);
  EXPECT_EQ(position.fetch_or_relaxed(6), 8u);
  EXPECT_EQ(position.fetch_xor_relaxed(3), 14u);
  EXPECT_EQ(position.exchange_relaxed(5), 13u);
  EXPECT_EQ(word, 5u);
}

TEST(bits, count_and_first) {
  EXPECT_EQ(simt::bit_count(0), 0u);
  EXPECT_EQ(simt::bit_count(simt::full_mask), 32u);
  EXPECT_EQ(simt::first_bit(0x80000000u), 31u);
  EXPECT_EQ(simt::first_bit(6), 1u);
}

TEST(now_ns, never_goes_back_and_moves_on) {
  u64 first = 0, last = 0;
  bool back = false;
  run(1, 1, [&] {
    last = simt::now_ns();
    first = last;
    while (last < first + 100000) {
      u64 const time_ns = simt::now_ns();
      back = back || time_ns < last;
      last = time_ns;
      simt::pause();
    }
  });
  EXPECT_FALSE(back);
  EXPECT_GT(last, first);
}

}  // namespace
