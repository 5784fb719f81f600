// Tests of the queue between kernels on the host executor and a reader: requests are taken once, in
// the order in which a thread posted them, and a kernel that finds no free entry gives up in time.
#include <tanada/device/detail/rpc/post_queue.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "rpc/post_reader.hpp"

namespace tanada::rpc {
namespace {

constexpr u64 long_ns = 60'000'000'000;

struct queue_memory {
  post_box box{};
  post_state state{};
  post_queue_ref queue() {
    return {&box, &state};
  }
};

bool post_request(post_queue_ref queue, u64 first, u64 second, u64 timeout_ns) {
  u64 const ticket = queue.claim(simt::now_ns() + timeout_ns);
  if (ticket == no_ticket)
    return false;
  post_entry &entry = queue.entry(ticket);
  entry.body.words[0] = first;
  entry.body.words[1] = second;
  entry.text[post_text_size - 1] = char(second);
  queue.post(ticket);
  return true;
}

TEST(rpc_post_queue, requests_of_a_thread_are_taken_once_and_in_its_order) {
  auto memory = std::make_unique<queue_memory>();
  post_reader reader{memory->box};
  post_queue_ref const queue = memory->queue();
  constexpr u32 blocks = 8, threads = 32, rounds = 30;
  std::atomic<u32> refused = 0;
  simt::host::launch({blocks}, {threads}, [&] {
    for (u64 i = 0; i < rounds; i++)
      if (!post_request(queue, simt::global_thread_rank(), i, long_ns))
        refused++;
  });
  std::vector<u64> next(blocks * threads, 0);
  while (reader.taken_count() < u64{blocks} * threads * rounds) {
    post_entry *const entry = reader.front();
    if (entry == nullptr) {
      std::this_thread::yield();
      continue;
    }
    u64 const thread = entry->body.words[0], turn = entry->body.words[1];
    ASSERT_LT(thread, next.size());
    EXPECT_EQ(turn, next[thread]++);
    EXPECT_EQ(entry->text[post_text_size - 1], char(turn));
    reader.release();
  }
  ASSERT_TRUE(simt::host::synchronize(~u64{0}));
  EXPECT_EQ(refused, 0u);
  EXPECT_EQ(reader.front(), nullptr);
}

TEST(rpc_post_queue, a_kernel_gives_up_at_its_deadline_and_loses_no_ticket) {
  auto memory = std::make_unique<queue_memory>();
  post_reader reader{memory->box};
  post_queue_ref const queue = memory->queue();
  std::atomic<u32> posted = 0;
  auto const post_one_more = [&](u64 timeout_ns) {
    simt::host::launch({1}, {1}, [&queue, &posted, timeout_ns] {
      posted += post_request(queue, 0, posted, timeout_ns) ? 1 : 0;
    });
    ASSERT_TRUE(simt::host::synchronize(~u64{0}));
  };
  simt::host::launch({1}, {1}, [&] {
    while (post_request(queue, 0, posted, 1'000'000))
      posted++;
  });
  ASSERT_TRUE(simt::host::synchronize(~u64{0}));
  EXPECT_EQ(posted, post_count);
  ASSERT_NE(reader.front(), nullptr);
  reader.release();
  post_one_more(long_ns);
  EXPECT_EQ(posted, post_count + 1);
  for (u64 turn = 1; turn <= post_count; turn++) {
    ASSERT_NE(reader.front(), nullptr);
    EXPECT_EQ(reader.front()->body.words[1], turn);
    reader.release();
  }
  EXPECT_EQ(reader.front(), nullptr);
}

TEST(rpc_post_queue, a_limit_is_above_all_earlier_tickets_of_its_thread) {
  auto memory = std::make_unique<queue_memory>();
  post_queue_ref const queue = memory->queue();
  u64 limits[3]{};
  simt::host::launch({1}, {1}, [&] {
    for (u64 &limit : limits) {
      (void)post_request(queue, 0, 0, long_ns);
      limit = queue.limit();
    }
  });
  ASSERT_TRUE(simt::host::synchronize(~u64{0}));
  EXPECT_EQ(limits[0], 1u);
  EXPECT_EQ(limits[2], 3u);
}

}  // namespace
}  // namespace tanada::rpc
