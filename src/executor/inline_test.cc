#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include <tanada/device/detail/simt/host/executor.hpp>
#include <tanada/device/detail/simt/thread.hpp>

namespace {

using namespace tanada;
using simt::host::inline_options;
using simt::host::run_inline;

// The thread of each atomic step, in order.
std::vector<u64> trace_of(u64 seed, u32 preempt_permille = 200) {
  std::vector<u64> trace(6 * 40 * 4);
  u32 counter = 0;
  inline_options options;
  options.seed = seed;
  options.preempt_permille = preempt_permille;
  run_inline(
      6,
      40,
      [&] {
        for (u32 i = 0; i < 4; i++) {
          trace[simt::device_atomic<u32>(counter).fetch_add_acq_rel(1)] =
              simt::global_thread_rank();
          if (i == 1)
            simt::block_barrier();
        }
      },
      options);
  EXPECT_EQ(counter, trace.size());
  return trace;
}

TEST(run_inline, repeats_itself_exactly_for_a_seed) {
  for (u64 seed = 0; seed < 10; seed++)
    EXPECT_EQ(trace_of(seed), trace_of(seed)) << seed;
}

TEST(run_inline, differs_between_seeds) {
  for (u64 seed = 0; seed < 10; seed++)
    EXPECT_NE(trace_of(seed), trace_of(seed + 1)) << seed;
}

TEST(run_inline, runs_lanes_in_order_without_preemption) {
  std::vector<u64> const trace = trace_of(1, 0);
  EXPECT_EQ(trace, trace_of(2, 0));
  for (u64 i = 0; i < 80; i++)
    EXPECT_EQ(trace[i], i / 2) << i;
}

TEST(run_inline, preempts_at_atomics) {
  u32 word = 0;
  inline_options options;
  run_inline(
      1,
      64,
      [&] {
        simt::device_atomic<u32> const shared{word};
        u32 const observed = shared.load_relaxed();
        shared.store_relaxed(observed + 1);  // not one atomic step: updates must get lost
      },
      options);
  EXPECT_LT(word, 64u);
}

TEST(run_inline, calls_between_in_the_same_thread_and_outside_kernels) {
  u32 request = 0, answer = 0, calls = 0;
  std::atomic<bool> wrong = false;
  std::thread::id const thread = std::this_thread::get_id();
  inline_options options;
  options.between_turns = [&] {
    calls++;
    if (simt::host::in_kernel() || std::this_thread::get_id() != thread)
      wrong = true;
    simt::system_atomic<u32> const wanted{request};
    if (wanted.load_acquire() != 0)
      simt::system_atomic<u32>(answer).store_release(7);
  };
  run_inline(
      2,
      32,
      [&] {
        if (std::this_thread::get_id() != thread)
          wrong = true;
        simt::system_atomic<u32>(request).store_release(1);
        while (simt::system_atomic<u32>(answer).load_acquire() != 7)
          simt::pause();
      },
      options);
  EXPECT_GT(calls, 0u);
  EXPECT_FALSE(wrong);
}

TEST(run_inline, takes_its_time_from_now) {
  u64 time = 1000, observed = 0;
  inline_options options;
  options.clock_ns = [&] {
    return time;
  };
  options.between_turns = [&] {
    time += 10;
  };
  run_inline(
      1,
      1,
      [&] {
        while (simt::now_ns() < 5000)
          simt::pause();
        observed = simt::now_ns();
      },
      options);
  EXPECT_EQ(observed, 5000u);
}

TEST(run_inline, keeps_no_more_blocks_resident_than_asked) {
  std::atomic<u32> running = 0, most = 0, count = 0;
  inline_options options;
  options.resident_blocks = 3;
  run_inline(
      20,
      1,
      [&] {
        running++;
        if (most < running)
          most = running.load();
        for (u32 i = 0; i < 20; i++)
          simt::pause();
        running--;
        count++;
      },
      options);
  EXPECT_EQ(most.load(), 3u);
  EXPECT_EQ(count.load(), 20u);
}

}  // namespace
