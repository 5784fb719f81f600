// The send queue of a peer that does not read is bounded.

#include <cstring>
#include <deque>

#include "products/o2g/engine_fixture.hpp"

namespace tanada::o2g {
namespace {

constexpr uint64_t queue_size = 1 << 20;
constexpr uint64_t system_size = 64 << 20;  // bytes: more than the buffers of two sockets hold

struct full_queue : two_engines {
  void SetUp() override {
    make({.send_queue_size = queue_size});
  }

  // Posts numbered messages from a to b, which does not read, until one is refused. Returns how
  // many were posted. The copy of an injected message counts for the limit; the program's memory
  // does not.
  uint64_t fill(bool inject) {
    peer_index const target = a->peer(*b);
    settle_connection();
    while (next * message_size < system_size) {
      if (post(target, inject) == status::again)
        return next;
    }
    return next;
  }
  status post(peer_index target, bool inject) {
    auto &memory = inject ? scratch : sources.emplace_back(message_size);
    std::memcpy(memory.data(), &next, sizeof next);
    iovec const part{memory.data(), message_size};
    status const code = a->speaker->post_send({.target = target,
                                               .parts = {&part, 1},
                                               .tag = 1,
                                               .tagged = true,
                                               .inject = inject,
                                               .errors_only = inject});
    if (code == status::ok) {
      next++;
    } else if (!inject) {
      sources.pop_back();
    }
    return code;
  }
  void settle_connection() {
    ASSERT_EQ(a->speaker->post_send(
                  {.target = a->peer(*b), .tag = 2, .tagged = true, .errors_only = true}),
              status::ok);
    ASSERT_TRUE(until([&] { return b->speaker->statistics().received_count != 0; }));
  }
  // Receives all posted messages, in order.
  void expect_all() {
    std::vector<char> received(message_size);
    for (uint64_t i = 0; i < next; i++) {
      size_t const before = b->done.events.size();
      ASSERT_EQ(receive(*b, received, 1), status::ok);
      ASSERT_TRUE(until([&] { return b->done.events.size() > before; }));
      uint64_t number = ~uint64_t{0};
      std::memcpy(&number, received.data(), sizeof number);
      ASSERT_EQ(number, i);
    }
  }

  static constexpr size_t message_size = 1000;
  uint64_t next = 0;
  std::vector<char> scratch = std::vector<char>(message_size);
  std::deque<std::vector<char>> sources;
};

TEST_F(full_queue, refuses_and_goes_on_when_the_peer_reads) {
  for (bool const inject : {true, false}) {
    make({.send_queue_size = queue_size});
    next = 0;
    uint64_t const count = fill(inject);
    ASSERT_LT(count * message_size, system_size) << "nothing was refused";
    EXPECT_GE(count * message_size, queue_size / 2);
    EXPECT_EQ(post(a->peer(*b), inject), status::again);
    // A caller that retries without polling succeeds in the end.
    uint64_t const end_ns = seams::monotonic_clock().now_ns() + 20'000'000'000;
    status code = status::again;
    while (code == status::again && seams::monotonic_clock().now_ns() < end_ns) {
      b->speaker->poll();
      code = post(a->peer(*b), inject);
    }
    ASSERT_EQ(code, status::ok);
    expect_all();
  }
}

// Requests to other peers are accepted, and the engine's own messages are not refused.
TEST_F(full_queue, is_of_one_peer_and_of_requests) {
  fill(true);
  kept_endpoint unrelated{polled({.send_queue_size = queue_size})};
  EXPECT_EQ(a->speaker->post_send({.target = a->peer(unrelated), .tag = 1, .tagged = true}),
            status::ok);
  uint64_t word = 7, got = 0;
  ASSERT_EQ(a->memory.add(5,
                          reinterpret_cast<std::byte *>(&word),
                          8,
                          0,
                          {.remote_read = true, .remote_write = true}),
            status::ok);
  EXPECT_EQ(a->speaker->post_put({.target = a->peer(*b), .remote = {0, 0, 5}}), status::again);
  EXPECT_EQ(a->speaker->post_get({.target = a->peer(*b), .remote = {0, 0, 5}}), status::again);
  uint64_t const operand = 1;
  atomic_request add{.target = a->peer(*b),
                     .operands = std::as_bytes(std::span{&operand, 1}),
                     .remote = {0, 8, 5}};
  EXPECT_EQ(a->speaker->post_atomic(add), status::again);
  add.is_continuation = true;
  EXPECT_EQ(a->speaker->post_atomic(add), status::ok);
  iovec const into{&got, 8};
  ASSERT_EQ(b->speaker->post_get({.target = b->peer(*a), .parts = {&into, 1}, .remote = {0, 8, 5}}),
            status::ok);
  ASSERT_TRUE(until([&] { return !b->done.events.empty(); }));
  EXPECT_EQ(got, 7u);
}

}  // namespace
}  // namespace tanada::o2g
