// The handshake of a session, over a simulated stream.
#include "products/poold/session.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "sim/stream.hpp"

namespace tanada::poold {
namespace {

using namespace wire::pool;

class session_handshake : public testing::Test {
 protected:
  session_handshake() {
    auto [here, there] = sim::stream_pair_create(world_, {}, [] { return false; });
    client_ = std::move(here);
    session_ =
        std::make_unique<session>(service_, std::move(there), 1, std::make_shared<mailbox>(), 1);
  }

  template <class Message>
  void send(kind what, const Message &message) {
    auto bytes = frame_of({.what = uint16_t(what)}, message);
    iovec const part{bytes.data(), bytes.size()};
    ASSERT_EQ(client_->send({&part, 1}).value(), bytes.size());
  }
  // The header of the last answer that has come; none: magic is 0.
  frame answer() {
    frame last{.magic = 0};
    std::vector<std::byte> bytes(4096);
    iovec const part{bytes.data(), bytes.size()};
    auto got = client_->receive({&part, 1});
    size_t const size = got.ok() ? got.value() : 0;
    for (size_t at = 0; at + sizeof last <= size; at += sizeof last + last.body_size)
      std::memcpy(&last, bytes.data() + at, sizeof last);
    return last;
  }
  void greet() {
    hello_message hello;
    hello.space = "test";
    send(kind::hello, hello);
    EXPECT_EQ(session_->progress(1), session::outcome::waiting);
    EXPECT_EQ(answer().code, 0);
    send(kind::proof, proof_message{});
  }

  std::unique_ptr<space> memory_ =
      space::create({.capacity = 4 << 20, .segment_size = 2 << 20, .prefault = false}).value();
  catalog objects_{*memory_, nullptr, {}};
  service service_{.memory = *memory_, .objects = objects_, .keys = {}};
  sim::world world_{1};
  std::unique_ptr<port::stream> client_;
  std::unique_ptr<session> session_;
};

TEST_F(session_handshake, admits_a_client_before_it_sends_the_welcome) {
  bool is_asked = false;
  session_->on_proven([&] {
    is_asked = true;
    EXPECT_TRUE(session_->is_early());
    EXPECT_EQ(answer().magic, 0u) << "the client was answered before it was admitted";
    return true;
  });
  greet();
  EXPECT_EQ(session_->progress(1), session::outcome::waiting);
  EXPECT_TRUE(is_asked);
  EXPECT_FALSE(session_->is_early());
  frame const last = answer();
  EXPECT_EQ(kind(last.what), kind::welcome);
  EXPECT_EQ(last.code, 0);
}

TEST_F(session_handshake, refuses_a_proven_client_whose_place_is_gone) {
  session_->on_proven([] { return false; });
  greet();
  EXPECT_EQ(session_->progress(1), session::outcome::ended);
  EXPECT_TRUE(session_->is_early());
  frame const last = answer();
  EXPECT_EQ(kind(last.what), kind::welcome);
  EXPECT_EQ(wire::status_of(last.code), status::busy);
  EXPECT_EQ(service_.counters.client_count, 0u);
  EXPECT_TRUE(objects_.all_spaces().empty());
}

}  // namespace
}  // namespace tanada::poold
