// Tests of the ring between kernels on the host executor and a server: every request is answered
// once, replies are complete, loans are returned, and slots of abandoned requests are reused.
#include <tanada/device/detail/rpc/ring.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>

#include "rpc/server.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::rpc {
namespace {

struct ring_memory {
  mailbox mail{};
  slot_table slots{};
  ring_ref ring() {
    return {&mail, &slots};
  }
};

// Answers op 1 with 3 * word + 1, attaches a loan to the reply of op 2, and defers the reply to op
// 3.
struct echo final : server::handler {
  server &target;
  std::set<u32> loaned, deferred;
  u64 arrivals = 0, requests = 0, finished = 0, canceled = 0;
  explicit echo(server &owner) : target{owner} {}
  void on_arrival(const request &) override {
    arrivals++;
  }
  void on_request(u32 slot, const request &new_request, std::string_view text) override {
    requests++;
    EXPECT_LE(requests, arrivals) << "a request that was not announced";
    if (new_request.op == 3) {
      deferred.insert(slot);
      return;
    }
    u64 const words[2] = {new_request.words[0] * 3 + 1, text.size()};
    bool const has_loan = new_request.op == 2;
    EXPECT_TRUE(!has_loan || loaned.insert(slot).second) << "lent twice";
    target.reply(slot, status::ok, u32(new_request.words[0] & 0xffff), words, 2, has_loan);
  }
  void on_finished(u32 slot, bool was_canceled) override {
    EXPECT_EQ(loaned.erase(slot), 1u) << "given back without being lent";
    finished++;
    canceled += was_canceled;
  }
};

u32 poll_all(server &serving, server::handler &target) {
  u32 event_count = 0;
  for (u32 share = serving.next_active_share(0); share < share_count;
       share = serving.next_active_share(share + 1))
    event_count += serving.poll(share, target);
  return event_count;
}

u32 send_request(ring_ref ring, u32 op, u64 word, u64 timeout_ns, status &code) {
  u64 const deadline = simt::now_ns() + timeout_ns;
  ticket const claimed = ring.claim(deadline);
  if (claimed.slot == no_slot) {
    code = status::timed_out;
    return 0;
  }
  bool const is_short = word <= short_first_max && word % 2 == 1;
  if (is_short) {
    ring.post_short(claimed, op, 0, word, 0);
  } else {
    ring.body(claimed).op = op;
    ring.body(claimed).words[0] = word;
    ring.text(claimed)[0] = 'x';
    ring.text(claimed)[1] = 0;
    ring.post(claimed);
  }
  reply const response = ring.wait(claimed, deadline);
  code = response.code;
  if (response.code == status::timed_out)
    return 0;
  u64 const answer =
      simt::system_atomic<u64>(const_cast<u64 &>(ring.words(claimed)[0])).load_relaxed();
  u64 const text_length =
      simt::system_atomic<u64>(const_cast<u64 &>(ring.words(claimed)[1])).load_relaxed();
  if (response.value != (word & 0xffff) || answer != word * 3 + 1 ||
      text_length != (is_short ? 0 : 1))
    code = status::corrupt;
  ring.finish(claimed, false);
  return response.value;
}

TEST(rpc_ring, every_request_of_many_blocks_is_answered_once) {
  auto memory = std::make_unique<ring_memory>();
  server serving{memory->mail};
  echo handler{serving};
  ring_ref const ring = memory->ring();
  std::atomic<bool> stop = false;
  std::atomic<u32> failed = 0;
  std::thread service{[&] {
    while (!stop)
      poll_all(serving, handler);
    while (poll_all(serving, handler) > 0) {}
  }};
  constexpr u32 blocks = 16, threads = 64, rounds = 20;
  simt::host::launch({blocks}, {threads}, [&] {
    for (u32 i = 0; i < rounds; i++) {
      status code{};
      (void)send_request(
          ring, 1 + i % 2, simt::global_thread_rank() * 1000 + i, 60'000'000'000, code);
      if (code != status::ok)
        failed++;
    }
  });
  ASSERT_TRUE(simt::host::synchronize(~u64{0}));
  stop = true;
  service.join();
  EXPECT_EQ(failed, 0u);
  EXPECT_EQ(handler.requests, u64(blocks) * threads * rounds);
  EXPECT_EQ(handler.arrivals, handler.requests);
  EXPECT_EQ(handler.finished, u64(blocks) * threads * rounds / 2);
  EXPECT_TRUE(handler.loaned.empty());
}

TEST(rpc_ring, a_kernel_that_gives_up_leaves_a_slot_that_comes_back) {
  auto memory = std::make_unique<ring_memory>();
  server serving{memory->mail};
  echo handler{serving};
  ring_ref const ring = memory->ring();
  // Time out more requests than there are slots: slots answered in the meantime are reused.
  for (u32 round = 0; round < 3; round++) {
    simt::host::launch({8}, {64}, [&] {
      status code{};
      (void)send_request(ring, 3, 1, 1'000'000, code);
      EXPECT_EQ(code, status::timed_out);
    });
    ASSERT_TRUE(simt::host::synchronize(~u64{0}));
    poll_all(serving, handler);
    for (u32 slot : handler.deferred) {
      EXPECT_TRUE(serving.is_canceled(slot));
      serving.reply(slot, status::ok, 0, nullptr, 0, false);
    }
    handler.deferred.clear();
  }
  EXPECT_EQ(handler.requests, 3u * 512);
}

TEST(rpc_ring, what_a_late_answer_lends_comes_back_as_canceled) {
  auto memory = std::make_unique<ring_memory>();
  server serving{memory->mail};
  echo handler{serving};
  ring_ref const ring = memory->ring();
  simt::host::launch({1}, {1}, [&] {
    status code{};
    (void)send_request(ring, 2, 1, 1'000'000, code);
    EXPECT_EQ(code, status::timed_out);
  });
  ASSERT_TRUE(simt::host::synchronize(~u64{0}));
  poll_all(serving, handler);  // replies with a loan
  poll_all(serving, handler);  // gets the loan back
  EXPECT_EQ(handler.finished, 1u);
  EXPECT_EQ(handler.canceled, 1u);
}

TEST(rpc_ring, with_every_slot_taken_a_claim_ends_at_its_deadline) {
  auto memory = std::make_unique<ring_memory>();
  ring_ref const ring = memory->ring();
  simt::host::launch({1}, {1}, [&] {
    for (u32 i = 0; i < slot_count; i++)
      EXPECT_NE(ring.claim(0).slot, no_slot);
    EXPECT_EQ(ring.claim(simt::now_ns() + 2'000'000).slot, no_slot);
  });
  ASSERT_TRUE(simt::host::synchronize(~u64{0}));
}

TEST(rpc_ring, a_short_request_is_handed_over_once_its_words_are_there) {
  auto memory = std::make_unique<ring_memory>();
  server serving{memory->mail};
  echo handler{serving};
  auto &words = memory->mail.shorts[7].words;
  memory->mail.posted[7] = 1 << 1 | 1;
  EXPECT_EQ(poll_all(serving, handler), 0u);
  words[0] = u64{1} << 32 | u64{1} << 24;
  EXPECT_EQ(poll_all(serving, handler), 0u);
  words[1] = u64{1} << 52 | 5;
  EXPECT_EQ(poll_all(serving, handler), 1u);
  EXPECT_EQ(memory->mail.answers[7].words[0], 16u);
  EXPECT_EQ(memory->mail.answers[7].head[1], u64{1} << 32 | 5);
  EXPECT_EQ(poll_all(serving, handler), 0u);
}

}  // namespace
}  // namespace tanada::rpc
