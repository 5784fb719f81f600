#include "executor/launch_refusal.hpp"
#include "executor/sanitizer.hpp"
#include <tanada/device/detail/simt/host/executor.hpp>

#include <gtest/gtest.h>
#include <tanada/status.h>

#include <atomic>
#include <thread>
#include <vector>

#include <tanada/device/detail/simt/group.hpp>
#include <tanada/device/detail/simt/launch.hpp>
#include <tanada/device/detail/simt/thread.hpp>

namespace {

using namespace tanada;
using simt::host::synchronize;

TEST(shared_storage, is_one_object_a_block_and_fresh_for_each) {
  constexpr u32 blocks = 64, threads = 40;
  std::vector<u32> sums(blocks), fills(blocks);
  simt::host::launch(blocks, threads, [s = sums.data(), f = fills.data()] {
    using row = u32[threads];
    TND_SHARED(row, values);
    TND_SHARED(u64, other);
    u32 const rank = simt::thread_rank_in_block();
    u64 const block = simt::block_rank();
    if (rank == 0)
      f[block] = values[threads - 1] == 0xa5a5a5a5u && other == 0xa5a5a5a5a5a5a5a5ull;
    simt::block_barrier();
    values[rank] = u32(block) + rank;
    if (rank == 3)
      other = block;
    simt::block_barrier();
    if (rank != 1)
      return;
    for (u32 value : values)
      s[block] += value;
    s[block] += u32(other);
  });
  ASSERT_TRUE(synchronize(TND_NO_DEADLINE));
  for (u32 b = 0; b < blocks; b++) {
    EXPECT_EQ(fills[b], 1u) << b;
    EXPECT_EQ(sums[b], threads * b + threads * (threads - 1) / 2 + b) << b;
  }
}

TEST(shared_storage, and_stacks_are_private) {
  static u32 global = 0;
  u32 outside = 0;
  u32 wrong = 0;
  simt::host::launch(2, 40, [&] {
    TND_SHARED(u64, shared);
    u32 own_values[100] = {};
    simt::block_barrier();  // other lanes run meanwhile
    bool const right = simt::is_private(own_values) && simt::is_private(own_values + 99) &&
                       simt::is_private(&shared) && !simt::is_private(&global) &&
                       !simt::is_private(&outside) && !simt::is_private(nullptr);
    if (!right)
      __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
  });
  ASSERT_TRUE(synchronize(TND_NO_DEADLINE));
  EXPECT_EQ(wrong, 0u);
  EXPECT_FALSE(simt::host::is_private(&outside));
}

TEST(shared_storage, is_aligned_and_may_be_large) {
  struct alignas(256) big {
    u8 bytes[100 * 1024];
  };
  bool right = false;
  simt::host::launch(1, 1, [&right] {
    TND_SHARED(u8, small);
    TND_SHARED(big, large);
    small = 1;
    large.bytes[sizeof(big) - 1] = 2;
    right = reinterpret_cast<unsigned long>(&large) % 256 == 0 && small == 1;
  });
  ASSERT_TRUE(synchronize(TND_NO_DEADLINE));
  EXPECT_TRUE(right);
}

TEST(launch, runs_launches_in_order) {
  constexpr u32 launches = 50;
  std::vector<u32> values(16 * 32), errors(16 * 32);
  for (u32 i = 0; i < launches; i++)
    simt::host::launch(16, 32, [v = values.data(), e = errors.data(), i] {
      u64 const thread = simt::global_thread_rank();
      u64 const other_index = (thread + 131 * i) % (16 * 32);
      if (i % 2 == 0)
        v[thread]++;
      else if (v[other_index] != i / 2 + 1)  // every thread of the previous launch has finished
        e[thread]++;
    });
  ASSERT_TRUE(synchronize(TND_NO_DEADLINE));
  for (u32 error : errors)
    EXPECT_EQ(error, 0u);
}

TEST(launch, is_asynchronous_and_synchronize_keeps_its_deadline) {
  std::atomic<bool> go{false};
  std::atomic<u32> done{0};
  simt::host::launch(2, 33, [&] {
    while (!go.load())
      simt::pause();
    done++;
  });
  EXPECT_EQ(done.load(), 0u);
  u64 const start = simt::host::now_ns();
  EXPECT_FALSE(synchronize(start + 20000000));
  u64 const waited = simt::host::now_ns() - start;
  EXPECT_GE(waited, 20000000u);
  EXPECT_LT(waited, 5000000000u);
  EXPECT_FALSE(synchronize(0));
  go = true;
  EXPECT_TRUE(synchronize(TND_NO_DEADLINE));
  EXPECT_EQ(done.load(), 66u);
  EXPECT_TRUE(synchronize(0));
}

TEST(launch, keeps_as_many_blocks_resident_as_asked) {
  std::atomic<u32> arrived{0};
  simt::host::launch(8,
                     1,
                     [&] {
                       arrived++;
                       while (arrived.load() < 8)
                         simt::pause();  // ends only if all eight run together
                     },
                     {.resident_blocks = 8});
  EXPECT_TRUE(synchronize(simt::host::now_ns() + 20000000000ull));
}

// The stacks do not take all mappings that a process may have: the host can start threads.
TEST(launch, keeps_blocks_with_many_threads_resident) {
  if (simt::host::one_fiber_per_lane)
    GTEST_SKIP() << "TSan supports too few fibers";
  constexpr u32 blocks = 40, threads = 1024;
  std::atomic<u32> arrived{0};
  std::atomic<bool> go{false};
  simt::host::launch(blocks,
                     threads,
                     [&] {
                       this_block{}.sync();  // all lanes have started
                       if (simt::thread_rank_in_block() == 0) {
                         arrived++;
                         while (!go.load())
                           simt::pause();
                       }
                       this_block{}.sync();
                     },
                     {.resident_blocks = blocks});
  while (arrived.load() < blocks)
    std::this_thread::yield();
  std::vector<std::thread> host_threads;
  for (int i = 0; i < 100; i++)
    EXPECT_NO_THROW(host_threads.emplace_back([&] { go = true; }));
  go = true;
  for (std::thread &host_thread : host_threads)
    host_thread.join();
  EXPECT_TRUE(synchronize(TND_NO_DEADLINE));
}

TEST(launch, takes_kernels_with_converted_arguments) {
  struct kernels {
    static void add(u64 *sum, u32 count, double factor) {
      *sum += u64(count * factor);
    }
  };
  u64 sum = 0;
  simt::launch(1, 1, kernels::add, &sum, 6, 7);
  EXPECT_TRUE(synchronize(TND_NO_DEADLINE));
  EXPECT_EQ(sum, 42u);
}

TEST(launch, gives_each_thread_the_stack_it_asks_for) {
  u64 sum = 0;
  simt::host::launch(1,
                     1,
                     [&sum] {
                       u8 volatile frame[400 * 1024];
                       for (u32 i = 0; i < sizeof frame; i += 1024)
                         frame[i] = 1;
                       for (u32 i = 0; i < sizeof frame; i += 1024)
                         sum += frame[i];
                     },
                     {.stack_size = 512 * 1024});
  EXPECT_TRUE(synchronize(TND_NO_DEADLINE));
  EXPECT_EQ(sum, 400u);
}

TEST(pause, lets_the_other_lanes_and_host_threads_run) {
  u32 flag = 0, answer = 0;
  simt::host::launch(1, 32, [&] {
    if (simt::lane_index() == 31)
      simt::system_atomic<u32>(flag).store_release(1);
    while (simt::system_atomic<u32>(answer).load_acquire() == 0)
      simt::pause();
  });
  std::thread service([&] {
    while (simt::system_atomic<u32>(flag).load_acquire() == 0)
      simt::pause();
    simt::system_atomic<u32>(answer).store_release(1);
  });
  EXPECT_TRUE(synchronize(simt::host::now_ns() + 20000000000ull));
  service.join();
}

TEST(atomics, let_the_other_lanes_run_even_without_pause) {
  u32 flag = 0;
  simt::host::launch(1, 2, [&] {
    simt::device_atomic<u32> const shared{flag};
    if (simt::lane_index() == 0)
      while (shared.load_acquire() == 0)
        continue;
    else
      shared.store_release(1);
  });
  EXPECT_TRUE(synchronize(simt::host::now_ns() + 20000000000ull));
}

TEST(atomics, count_right_over_blocks) {
  u32 count = 0;
  u64 maximum = 0;
  simt::host::launch(16, 64, [&] {
    simt::device_atomic<u32>(count).fetch_add_relaxed(1);
    simt::device_atomic<u64> const high{maximum};
    u64 observed = high.load_relaxed();
    while (observed < simt::global_thread_rank() &&
           !high.compare_exchange_acq_rel(observed, simt::global_thread_rank()))
      continue;
  });
  ASSERT_TRUE(synchronize(TND_NO_DEADLINE));
  EXPECT_EQ(count, 1024u);
  EXPECT_EQ(maximum, 1023u);
}

class executor_death : public testing::Test {
 protected:
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
  }
  static void die(simt::dim3 grid_size, simt::dim3 block_size, std::function<void()> kernel) {
    simt::host::launch(grid_size, block_size, std::move(kernel));
    (void)synchronize(simt::host::now_ns() + 20000000000ull);
  }
};

TEST_F(executor_death, a_warp_collective_that_a_lane_skips) {
  EXPECT_DEATH(die(1,
                   32,
                   [] {
                     if (simt::lane_index() != 7)
                       (void)simt::ballot(simt::full_mask, true);
                     else
                       simt::block_barrier();
                   }),
               "deadlock in block 0: of 32 live threads 1 wait at the block barrier and 31 at a "
               "warp.*\n.*0x80");
}

TEST_F(executor_death, collectives_with_masks_that_disagree) {
  EXPECT_DEATH(
      die(1, 3, [] { simt::warp_barrier(simt::lane_index() == 0 ? 3 : 7); }),
      "deadlock in block 0.*\n.*thread 0 waits with mask 0x3; all arrived, but with other masks");
}

TEST_F(executor_death, a_collective_whose_mask_leaves_out_the_caller) {
  EXPECT_DEATH(die(1, 2, [] { simt::warp_barrier(1); }), "without itself");
}

TEST_F(executor_death, a_collective_of_a_block_that_a_thread_skips) {
  EXPECT_DEATH(die(1,
                   64,
                   [] {
                     if (simt::thread_rank_in_block() == 0)
                       (void)tanada::this_block{}.broadcast(1u);
                   }),
               "block 0 diverged: .*this_block, and another one has returned");
  EXPECT_DEATH(die(1,
                   64,
                   [] {
                     if (simt::thread_rank_in_block() == 0)
                       (void)tanada::this_block{}.broadcast(1u);
                     simt::block_barrier();
                   }),
               "this_block, and another one waits at a barrier outside it");
}

TEST_F(executor_death, a_message_names_the_call_that_a_thread_skips) {
  EXPECT_DEATH(die(1,
                   64,
                   [] {
                     if (simt::thread_rank_in_block() == 0)
                       return;
                     simt::call_name const call{"gather"};
                     (void)tanada::this_block{}.broadcast(1u);
                   }),
               "block 0 diverged: .* in gather, a collective call of this_block, and another one "
               "has returned");
  EXPECT_DEATH(die(1,
                   32,
                   [] {
                     if (simt::thread_rank_in_block() == 3)
                       return;
                     simt::call_name const call{"gather"};
                     (void)tanada::this_warp{}.broadcast(1u);
                   }),
               "in gather, a collective call of this_warp");
}

TEST_F(executor_death, two_collectives_of_a_block_that_meet) {
  EXPECT_DEATH(
      die(1,
          64,
          [] {
            simt::call_name const call{simt::thread_rank_in_block() < 40 ? "gather" : "scatter"};
            tanada::this_block{}.sync();
          }),
      "in gather or scatter, a collective call of this_block, and another one makes "
      "another call");
}

TEST_F(executor_death, a_collective_of_a_warp_that_a_thread_skips) {
  EXPECT_DEATH(die(1,
                   32,
                   [] {
                     if (simt::thread_rank_in_block() != 3)
                       return;
                     for (int i = 0; i < 2; i++)
                       tanada::this_warp{}.sync();
                   }),
               "this_warp, and another one has returned");
}

TEST(executor, a_launch_of_sizes_that_no_gpu_takes_is_refused) {
  simt::host::launch(1, 1025, [] { ADD_FAILURE(); });
  EXPECT_TRUE(simt::host::synchronize(~u64{0}));
  EXPECT_EQ(simt::host::take_refused_launch(),
            "launch of 1 x 1 x 1 blocks of 1025 x 1 x 1 threads; a block has 1 to 1024");
  simt::host::launch({1, 0}, 1, [] { ADD_FAILURE(); });
  EXPECT_NE(simt::host::take_refused_launch().find("launch of 1 x 0 x 1 blocks"),
            std::string::npos);
  EXPECT_EQ(simt::host::take_refused_launch(), "");
}

}  // namespace
