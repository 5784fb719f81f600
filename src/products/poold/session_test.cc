// The handshake of a session and what it grants, over a simulated stream.
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
    auto [client_end, server_end] = sim::stream_pair_create(world_, {}, [] { return false; });
    client_ = std::move(client_end);
    session_ = std::make_unique<session>(
        service_, std::move(server_end), 1, std::make_shared<mailbox>(), 1);
  }

  template <class Message>
  void send(kind type, const Message &message) {
    auto bytes = encode_frame({.kind = uint16_t(type)}, message);
    iovec const part{bytes.data(), bytes.size()};
    ASSERT_EQ(client_->send({&part, 1}).value(), bytes.size());
  }
  // The header of the last received reply; without a reply, magic is 0.
  frame answer() {
    frame last{.magic = 0};
    std::vector<std::byte> bytes(4096);
    iovec const part{bytes.data(), bytes.size()};
    auto got = client_->receive({&part, 1});
    size_t const size = got.ok() ? got.value() : 0;
    for (size_t offset = 0; offset + sizeof last <= size; offset += sizeof last + last.body_size)
      std::memcpy(&last, bytes.data() + offset, sizeof last);
    return last;
  }
  void greet(uint32_t version = protocol_version) {
    hello_message hello;
    hello.version = version;
    hello.namespace_name = "test";
    send(kind::hello, hello);
    EXPECT_EQ(session_->progress(1), session::outcome::waiting);
    EXPECT_EQ(answer().code, 0);
    send(kind::proof, proof_message{});
  }
  void enter(uint32_t version) {
    greet(version);
    EXPECT_EQ(session_->progress(1), session::outcome::waiting);
    ASSERT_EQ(kind(answer().kind), kind::welcome);
  }
  // An object "striped" that has no stripes.
  void put_striped() {
    uint64_t const space = objects_.open_namespace("test", true).value();
    object_ref const target = objects_.create_striped(space, 0, 0, {1, 1}).value();
    stripe_manifest manifest;
    manifest.id = {1, 1};
    manifest.stripe_size = 1;
    std::vector<std::byte> bytes;
    wire::encode(manifest, bytes);
    std::vector<iovec> parts;
    target->append_parts(0, bytes.size(), parts);
    std::memcpy(parts.at(0).iov_base, bytes.data(), bytes.size());
    target->metadata.size = bytes.size();
    ASSERT_EQ(objects_.complete_striped(*target), status::ok);
    auto const no_journal = [](const info &) {
      return journal_callback{};
    };
    ASSERT_TRUE(objects_.commit(target, "striped", 0, no_journal).ok());
  }
  template <class Message>
  status ask(kind type, const Message &message) {
    send(type, message);
    EXPECT_EQ(session_->progress(1), session::outcome::waiting);
    return wire::status_of(answer().code);
  }

  std::unique_ptr<pool_memory> memory_ =
      pool_memory::create({.capacity = 4 << 20, .segment_size = 2 << 20, .prefault = false})
          .value();
  catalog objects_{*memory_, nullptr, {}};
  service service_{.memory = *memory_, .objects = objects_, .keys = {}};
  sim::world world_{1};
  std::unique_ptr<seams::stream> client_;
  std::unique_ptr<session> session_;
};

TEST_F(session_handshake, admits_a_client_before_it_sends_the_welcome) {
  bool is_asked = false;
  session_->set_admission([&] {
    is_asked = true;
    EXPECT_TRUE(session_->is_in_handshake());
    EXPECT_EQ(answer().magic, 0u) << "the client got a reply before it was admitted";
    return true;
  });
  greet();
  EXPECT_EQ(session_->progress(1), session::outcome::waiting);
  EXPECT_TRUE(is_asked);
  EXPECT_FALSE(session_->is_in_handshake());
  frame const last = answer();
  EXPECT_EQ(kind(last.kind), kind::welcome);
  EXPECT_EQ(last.code, 0);
}

TEST_F(session_handshake, refuses_a_proven_client_whose_place_is_gone) {
  session_->set_admission([] { return false; });
  greet();
  EXPECT_EQ(session_->progress(1), session::outcome::ended);
  EXPECT_TRUE(session_->is_in_handshake());
  frame const last = answer();
  EXPECT_EQ(kind(last.kind), kind::welcome);
  EXPECT_EQ(wire::status_of(last.code), status::busy);
  EXPECT_EQ(service_.counters.client_count, 0u);
  EXPECT_TRUE(objects_.all_namespaces().empty());
}

TEST_F(session_handshake, refuses_other_versions_of_the_protocol) {
  hello_message hello;
  hello.version = protocol_version + 1;
  hello.namespace_name = "test";
  send(kind::hello, hello);
  EXPECT_EQ(session_->progress(1), session::outcome::ended);
  EXPECT_EQ(wire::status_of(answer().code), status::not_supported);
}

TEST_F(session_handshake, refuses_hidden_namespaces_of_a_pool_of_one_server) {
  hello_message hello;
  hello.namespace_name = "test/17";
  send(kind::hello, hello);
  EXPECT_EQ(session_->progress(1), session::outcome::ended);
}

TEST_F(session_handshake, an_earlier_client_cannot_open_striped_objects) {
  put_striped();
  enter(protocol_version_min);
  open_request open;
  open.name = "striped";
  EXPECT_EQ(ask(kind::open, open), status::not_supported);
  get_request get;
  get.name = "striped";
  EXPECT_EQ(ask(kind::get, get), status::not_supported);
  EXPECT_EQ(ask(kind::stat, open), status::ok);
}

TEST_F(session_handshake, a_single_server_without_a_log_has_no_limits_of_stripes) {
  enter(protocol_version);
  EXPECT_EQ(ask(kind::stripe_limits, empty_message{}), status::not_supported);
}

TEST_F(session_handshake, asking_a_single_server_for_its_cluster_counts_as_no_error) {
  enter(protocol_version);
  EXPECT_EQ(ask(kind::cluster_status, empty_message{}), status::not_supported);
  EXPECT_EQ(service_.counters.errors.sum(), 0u);
  EXPECT_EQ(ask(kind::stripe_limits, empty_message{}), status::not_supported);
  EXPECT_EQ(service_.counters.errors.sum(), 1u);
}

TEST_F(session_handshake, a_client_opens_striped_objects) {
  put_striped();
  enter(protocol_version);
  open_request open;
  open.name = "striped";
  EXPECT_EQ(ask(kind::open, open), status::ok);
  EXPECT_EQ(ask(kind::create_striped, create_striped_request{"a", "", 1, 0}), status::invalid)
      << "only a cluster has stripes";
}

}  // namespace
}  // namespace tanada::poold
