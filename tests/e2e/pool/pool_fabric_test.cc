// A client that names a fabric address must own it, and one that names a key must have received it.
#include <atomic>
#include <thread>

#include "e2e/pool/pool_fixture.hpp"
#include "e2e/pool/raw_client.hpp"
#include "products/pool/client/fabric_link.hpp"
#include "products/poold/session.hpp"
#include "sim/stream.hpp"

namespace tanada::test {
namespace {

using namespace wire::pool;

uint64_t from_now(uint64_t timeout_ns) {
  return seams::monotonic_clock().now_ns() + timeout_ns;
}

// An endpoint that a thread serves, as a client's does while it waits for the daemon.
class served_link {
 public:
  explicit served_link(pool::fabric_link &which)
      : thread_{[this, &which] {
          while (!ending_)
            which.serve(from_now(10'000'000));
        }} {}
  ~served_link() {
    ending_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

struct pool_fabric : testing::Test {
  void SetUp() override {
    auto opened = pool::fabric_link::open({.provider = test_fabric, .cuda = true});
    ASSERT_TRUE(opened.ok());
    link = std::move(opened).value();
    tnd_pool_connection about{};
    about.struct_size = sizeof about;
    ASSERT_EQ(tnd_pool_get_connection(good, &about), TND_OK);
    ASSERT_STREQ(
        about.reason,
        test_fabric_is_rdma() ? "" : "tcp;ofi_rxm copies in software");  // otherwise the reason for
                                                                         // using the stream
    ASSERT_EQ(put(good, "a", stored), TND_OK);
    ASSERT_EQ(client.greet("test"), status::ok);
    create_request create;
    create.name = "b";
    create.size = memory.size();
    ASSERT_EQ(client.ask(kind::create, create), status::ok);
    ASSERT_EQ(client.ask(kind::open, open_request{"a", 0}), status::ok);
  }

  // The daemon's message to the address; its tag is in `reply`.
  status claim() {
    status const code = client.ask(kind::fabric, fabric_request{test_fabric, link->address()});
    if (code == status::ok) {
      EXPECT_EQ(wire::decode(client.answer.body, reply), status::ok);
    }
    return code;
  }

  // Of the two handles of SetUp().
  rma_request asking_for(const seams::fabric_remote &remote, uint64_t handle) const {
    return {.handle = handle,
            .offset = 0,
            .size = memory.size(),
            .base = remote.base,
            .key = remote.key,
            .region_size = remote.size,
            .memory_offset = 0};
  }
  static constexpr uint64_t writer = 1, reader = 2;

  std::unique_ptr<poold::daemon> const daemon = started(small_pool(way::fabric));
  connection good{url_of(*daemon), way::fabric};
  raw_client client{daemon->port()};
  std::unique_ptr<pool::fabric_link> link;
  fabric_reply reply;
  std::vector<char> const stored = pattern(100'000, 1), secret = pattern(100'000, 2);
  std::vector<char> memory = secret;
};

TEST_F(pool_fabric, verbs_are_told_and_counted_as_rdma) {
  if (!test_fabric_is_rdma())
    GTEST_SKIP() << test_fabric << " is none";
  tnd_pool_connection about{};
  about.struct_size = sizeof about;
  ASSERT_EQ(tnd_pool_get_connection(good, &about), TND_OK);
  EXPECT_EQ(about.path, uint32_t(TND_POOL_PATH_RDMA));
  EXPECT_EQ(get(good, "a"), stored);
  auto const moved = daemon->report().transfers;
  EXPECT_EQ(moved[TND_POOL_PATH_RDMA].written_size, stored.size());
  EXPECT_EQ(moved[TND_POOL_PATH_RDMA].read_size, stored.size());
  EXPECT_EQ(moved[TND_POOL_PATH_TCP].written_size + moved[TND_POOL_PATH_TCP].read_size, 0u);
}

TEST_F(pool_fabric, a_forged_key_reaches_nothing_and_harms_nobody) {
  rma_request forged = asking_for({.base = 0, .key = 0x1234, .size = memory.size()}, writer);
  EXPECT_EQ(client.ask(kind::rma_write, forged), status::invalid);  // no endpoint is known yet
  ASSERT_EQ(claim(), status::ok);
  auto proof = link->await_secret(reply.tag, from_now(5'000'000'000));
  ASSERT_TRUE(proof.ok());
  ASSERT_EQ(client.ask(kind::fabric_proof, fabric_proof{proof.value()}), status::ok);
  served_link const served{*link};
  EXPECT_NE(client.ask(kind::rma_write, forged), status::ok);
  forged.handle = reader;
  EXPECT_NE(client.ask(kind::rma_read, forged), status::ok);
  forged.region_size = 10;
  EXPECT_EQ(client.ask(kind::rma_read, forged), status::range);
  forged.size = ~uint64_t{0};
  EXPECT_EQ(client.ask(kind::rma_read, forged), status::range);
  EXPECT_EQ(get(good, "a"), stored);
}

// A client that names another's endpoint, and even knows the key of its memory: nothing there is
// read or written.
TEST_F(pool_fabric, anothers_address_moves_no_byte) {
  auto lent = link->acquire_region(
      reinterpret_cast<std::byte *>(memory.data()), memory.size(), false, false);
  auto read_lent = link->acquire_region(
      reinterpret_cast<std::byte *>(memory.data()), memory.size(), false, true);
  ASSERT_TRUE(lent.ok() && read_lent.ok());
  auto const from = asking_for(read_lent.value().remote, writer),
             to = asking_for(lent.value().remote, reader);
  ASSERT_EQ(claim(), status::ok);
  served_link const served{*link};  // which has received the daemon's message and does not forward
                                    // it
  EXPECT_EQ(client.ask(kind::rma_write, from), status::access);
  EXPECT_EQ(client.ask(kind::rma_read, to), status::access);
  EXPECT_EQ(client.ask(kind::fabric_proof, fabric_proof{pool::random_bytes()}), status::access);
  EXPECT_EQ(client.ask(kind::rma_write, from), status::access);
  EXPECT_EQ(client.ask(kind::rma_read, to), status::access);
  EXPECT_EQ(client.ask(kind::fabric_proof, fabric_proof{pool::random_bytes()}),
            status::invalid);  // one try
  EXPECT_EQ(memory, secret);
  EXPECT_EQ(client.ask(kind::commit, commit_request{writer, {}}), status::ok);
  EXPECT_EQ(get(good, "b"), std::vector<char>(memory.size(), 0));
  EXPECT_EQ(get(good, "a"), stored);  // others' attempts continue
}

// The owner of the address ignores the message caused by another client's claim, and joins with its
// own.
TEST_F(pool_fabric, a_message_of_anothers_claim_is_passed_over) {
  ASSERT_EQ(claim(), status::ok);
  auto const foreign = reply.tag;
  raw_client owner{daemon->port()};
  ASSERT_EQ(owner.greet("test"), status::ok);
  ASSERT_EQ(owner.ask(kind::fabric, fabric_request{test_fabric, link->address()}), status::ok);
  fabric_reply mine;
  ASSERT_EQ(wire::decode(owner.answer.body, mine), status::ok);
  ASSERT_NE(mine.tag, foreign);
  auto proof = link->await_secret(mine.tag, from_now(5'000'000'000));
  ASSERT_TRUE(proof.ok());
  EXPECT_EQ(client.ask(kind::fabric_proof, fabric_proof{proof.value()}), status::access);
  EXPECT_EQ(owner.ask(kind::fabric_proof, fabric_proof{proof.value()}), status::ok);
}

TEST_F(pool_fabric, an_address_where_nobody_is_costs_the_others_nothing) {
  ASSERT_EQ(claim(), status::ok);
  link.reset();
  EXPECT_EQ(put(good, "c", stored), TND_OK);
  EXPECT_EQ(
      client.ask(kind::rma_read, asking_for({.base = 0, .key = 1, .size = memory.size()}, reader)),
      status::access);
  connection another{url_of(*daemon), way::fabric};
  EXPECT_EQ(get(another, "c"), stored);
}

// A valid proof, in time and after the daemon's limit.
TEST(pool_fabric_session, a_late_proof_is_none) {
  auto memory =
      poold::pool_memory::create({.capacity = 4 << 20, .segment_size = 2 << 20, .prefault = false});
  ASSERT_TRUE(memory.ok());
  auto endpoint = seams::fabric_open({test_fabric, test_fabric_node});
  ASSERT_TRUE(endpoint.ok());
  auto mover = poold::data_mover::start(std::move(endpoint).value());
  ASSERT_TRUE(mover.ok());
  auto opened = pool::fabric_link::open({.provider = test_fabric, .cuda = true});
  ASSERT_TRUE(opened.ok());
  pool::fabric_link &link = *opened.value();
  poold::catalog objects{*memory.value(), nullptr, {}};
  for (bool const late : {false, true}) {
    poold::service with{.memory = *memory.value(), .objects = objects, .keys = {}};
    with.fabric = mover.value().get();
    if (late)
      with.limits.fabric_proof_ns = 2'000'000'000;
    sim::world world{1};
    auto [here, there] = sim::stream_pair_create(world, {}, [] { return false; });
    poold::session one{with, std::move(there), 1, std::make_shared<poold::mailbox>(), 1};
    auto const ask = [&](kind what, const auto &message, auto &answer) {
      auto const bytes = encode_frame({.kind = uint16_t(what), .code = 0}, message);
      iovec const out{const_cast<std::byte *>(bytes.data()), bytes.size()};
      EXPECT_TRUE(here->send({&out, 1}).ok());
      EXPECT_NE(one.progress(1), poold::session::outcome::ended);
      std::array<std::byte, 4096> come{};
      iovec const room{come.data(), come.size()};
      auto size = here->receive({&room, 1});
      if (!size.ok() || size.value() < sizeof(frame))
        return status::peer_lost;
      frame head;
      std::memcpy(&head, come.data(), sizeof head);
      status const code = status_of(head.code);
      return code == status::ok
                 ? wire::decode(std::span{come}.subspan(sizeof head, head.body_size), answer)
                 : code;
    };
    hello_message hello;
    hello.namespace_name = "test";
    challenge_message challenge;
    welcome_message welcome;
    fabric_reply claimed;
    empty_message nothing;
    ASSERT_EQ(ask(kind::hello, hello, challenge), status::ok);
    ASSERT_EQ(ask(kind::proof, proof_message{}, welcome), status::ok);
    ASSERT_EQ(ask(kind::fabric, fabric_request{test_fabric, link.address()}, claimed), status::ok);
    auto proof = link.await_secret(claimed.tag, from_now(5'000'000'000));
    ASSERT_TRUE(proof.ok());
    if (late)
      seams::monotonic_clock().sleep_ns(with.limits.fabric_proof_ns);
    EXPECT_EQ(ask(kind::fabric_proof, fabric_proof{proof.value()}, nothing),
              late ? status::timed_out : status::ok);
  }
}

}  // namespace
}  // namespace tanada::test
