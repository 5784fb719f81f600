// Connections through rings in shared memory: when the daemon grants them, what hostile and dying
// clients do to others, and that nothing is left of them.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "backends/sockets/ring_stream.hpp"
#include "e2e/pool/pool_fixture.hpp"
#include "e2e/pool/raw_client.hpp"

namespace tanada::test {
namespace {

using backends::ring_memory;
using wire::pool::empty_message;
using wire::pool::kind;

uint64_t ring_count(const poold::daemon &daemon) {
  return daemon.report().ring_size / ring_memory::size;
}

// The daemon closes connections in threads of its own.
template <class Condition>
bool comes_true(const Condition &condition) {
  for (int i = 0; i < 1000; i++) {
    if (condition())
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  return false;
}

// A client that writes what it likes into its rings.
class hostile_client {
 public:
  explicit hostile_client(uint16_t port) : client_{port, true} {
    EXPECT_EQ(client_.greet("test"), status::ok);
    counters_ = client_.take_descriptor();
    EXPECT_EQ(client_.ask(kind::ring, empty_message{}), status::ok);
    int const file = client_.take_descriptor();
    auto mapped = ring_memory::map(file);
    EXPECT_TRUE(mapped.ok());
    memory = std::move(mapped).value();
    close(file);
  }
  ~hostile_client() {
    close(counters_);
  }
  // Wakes the daemon.
  void ring_bell() {
    client_.send("", 1);
  }
  bool is_closed() {
    return client_.is_closed();
  }
  backends::ring_state &to_daemon() {
    return memory->state(0);
  }
  void send_bytes(std::span<const std::byte> bytes) {
    for (std::byte const byte : bytes)
      memory->bytes(0)[position_++ % ring_memory::capacity] = byte;
    to_daemon().tail = position_;
    ring_bell();
  }
  // The daemon has read all bytes.
  bool is_drained() {
    return to_daemon().head == position_;
  }

  std::shared_ptr<ring_memory> memory;

 private:
  raw_client client_;
  int counters_ = -1;
  uint64_t position_ = 0;
};

class pool_ring : public testing::Test {
 protected:
  std::unique_ptr<poold::daemon> daemon = started(small_pool());
};

TEST_F(pool_ring, is_used_by_a_client_of_the_node_until_it_disconnects) {
  {
    connection pool{url_of(*daemon), way::shared_memory};
    ASSERT_EQ(pool.code, TND_OK);
    EXPECT_EQ(ring_count(*daemon), 1u);
    EXPECT_EQ(put(pool, "a", pattern(4096, 1)), TND_OK);
    EXPECT_EQ(get(pool, "a"), pattern(4096, 1));
    connection socket{url_of(*daemon), way::unix_socket}, tcp{url_of(*daemon), way::tcp};
    EXPECT_EQ(ring_count(*daemon), 1u);
    EXPECT_EQ(get(socket, "a"), pattern(4096, 1));
    EXPECT_EQ(get(tcp, "a"), pattern(4096, 1));
  }
  EXPECT_TRUE(comes_true([&] { return ring_count(*daemon) == 0; }));
}

TEST_F(pool_ring, is_turned_off_by_the_environment) {
  setenv("TND_POOL_RING", "off", 1);
  connection off{url_of(*daemon), way::shared_memory};
  setenv("TND_POOL_RING", "maybe", 1);
  connection wrong{url_of(*daemon), way::shared_memory};
  unsetenv("TND_POOL_RING");
  EXPECT_EQ(off.code, TND_OK);
  EXPECT_EQ(ring_count(*daemon), 0u);
  EXPECT_EQ(wrong.code, -EINVAL);
}

TEST_F(pool_ring, is_refused_by_a_daemon_that_does_not_poll_and_the_socket_serves) {
  auto options = small_pool();
  options.ring_poll_ns = 0;
  auto const silent = started(options);
  connection pool{url_of(*silent), way::shared_memory};
  ASSERT_EQ(pool.code, TND_OK);
  EXPECT_EQ(ring_count(*silent), 0u);
  EXPECT_EQ(put(pool, "a", pattern(4096, 1)), TND_OK);
}

TEST_F(pool_ring, serves_clients_over_the_socket_when_all_rings_are_in_use) {
  constexpr size_t user_count_max = poold::ring_budget::count_min / 2;
  std::vector<std::unique_ptr<connection>> crowd;
  for (size_t i = 0; i < user_count_max + 4; i++) {
    crowd.push_back(std::make_unique<connection>(url_of(*daemon), way::shared_memory));
    ASSERT_EQ(crowd.back()->code, TND_OK);
    EXPECT_EQ(put(*crowd.back(), std::to_string(i), pattern(100, uint32_t(i))), TND_OK);
    EXPECT_EQ(ring_count(*daemon), std::min(i + 1, user_count_max));
  }
  crowd.front().reset();
  EXPECT_TRUE(comes_true([&] { return ring_count(*daemon) == user_count_max - 1; }));
  connection next{url_of(*daemon), way::shared_memory};
  EXPECT_EQ(ring_count(*daemon), user_count_max);
}

TEST_F(pool_ring, is_refused_over_tcp_and_a_second_time) {
  raw_client remote{daemon->port()};
  ASSERT_EQ(remote.greet("test"), status::ok);
  EXPECT_EQ(remote.ask(kind::ring, empty_message{}), status::not_supported);
  hostile_client client{daemon->port()};
  auto const again =
      wire::pool::encode_frame({.kind = uint16_t(kind::ring), .tag = 9}, empty_message{});
  client.send_bytes(again);
  ASSERT_TRUE(
      comes_true([&] { return client.memory->state(1).tail >= sizeof(wire::pool::frame); }));
  wire::pool::frame head;
  std::memcpy(&head, client.memory->bytes(1), sizeof head);
  EXPECT_EQ(wire::pool::status_of(head.code), status::exists);
  EXPECT_EQ(ring_count(*daemon), 1u);
}

TEST_F(pool_ring, of_a_client_that_corrupts_it_ends_without_others) {
  connection good{url_of(*daemon), way::shared_memory};
  ASSERT_EQ(put(good, "a", pattern(1000, 1)), TND_OK);
  std::vector<std::byte> const garbage(500, std::byte{0xA5});
  using corruption = void (*)(hostile_client &);
  corruption const corruptions[] = {
      [](hostile_client &client) { client.to_daemon().tail = ring_memory::capacity + 1; },
      [](hostile_client &client) { client.to_daemon().tail = ~uint64_t{0}; },
      [](hostile_client &client) { client.to_daemon().tail = uint64_t{1} << 63; },
      // Zeros, which are no frame.
      [](hostile_client &client) {
        client.to_daemon().tail = ring_memory::capacity;
      }};
  for (size_t i = 0; i < std::size(corruptions); i++) {
    SCOPED_TRACE(i);
    hostile_client client{daemon->port()};
    corruptions[i](client);
    client.ring_bell();
    EXPECT_TRUE(client.is_closed());
    EXPECT_EQ(get(good, "a"), pattern(1000, 1));
  }
  hostile_client client{daemon->port()};
  client.send_bytes(garbage);
  EXPECT_TRUE(client.is_closed());
  EXPECT_TRUE(comes_true([&] { return ring_count(*daemon) == 1; }));
  EXPECT_EQ(put(good, "b", pattern(1000, 2)), TND_OK);
}

// A client that takes its space back while the daemon writes a reply.
TEST_F(pool_ring, of_a_client_with_an_impossible_position_of_replies_ends) {
  hostile_client client{daemon->port()};
  client.memory->state(1).head = uint64_t{1} << 40;
  std::vector<std::byte> bytes;
  // The position is read once the ring seems full.
  auto const frame = wire::pool::encode_frame({.kind = uint16_t(kind::list), .tag = 1},
                                              wire::pool::list_request{});
  while (bytes.size() + frame.size() <= ring_memory::capacity)
    bytes.insert(bytes.end(), frame.begin(), frame.end());
  for (int i = 0; i < 4 && ring_count(*daemon) > 0; i++) {
    client.send_bytes(bytes);
    (void)comes_true([&] { return client.is_drained() || ring_count(*daemon) == 0; });
  }
  EXPECT_TRUE(comes_true([&] { return ring_count(*daemon) == 0; }));
}

TEST_F(pool_ring, carries_requests_of_many_clients_at_the_same_time) {
  std::vector<std::jthread> threads;
  for (unsigned id = 0; id < 8; id++)
    threads.emplace_back([&, id] {
      constexpr way ways[] = {way::shared_memory, way::unix_socket, way::tcp};
      connection pool{url_of(*daemon), id < 6 ? way::shared_memory : ways[id % 3]};
      ASSERT_EQ(pool.code, TND_OK);
      for (unsigned i = 0; i < 300; i++) {
        auto const bytes = pattern(i * 37 % 20'000, id * 1000 + i);
        std::string const name = "object" + std::to_string(id) + "-" + std::to_string(i % 10);
        ASSERT_EQ(put(pool, name, bytes), TND_OK) << tnd_last_message();
        ASSERT_EQ(get(pool, name, TND_OK, 20'000), bytes);
      }
    });
}

// Requests are processed in the order in which they were posted.
TEST_F(pool_ring, keeps_the_order_of_requests) {
  connection pool{url_of(*daemon), way::shared_memory};
  for (uint32_t i = 0; i < 200; i++) {
    std::vector<char> bytes = pattern(1 + i * 100, i), target(30'000);
    tnd_pool_request request{};
    request.struct_size = sizeof request;
    request.kind = TND_POOL_REQUEST_PUT;
    request.name = "a";
    request.memory = bytes.data();
    request.size = bytes.size();
    ASSERT_EQ(tnd_pool_post(pool, &request), TND_OK);
    request.kind = TND_POOL_REQUEST_GET;
    request.memory = target.data();
    request.size = target.size();
    ASSERT_EQ(tnd_pool_post(pool, &request), TND_OK);
    ASSERT_EQ(tnd_pool_remove(pool, "a", 0), TND_OK) << "the put is before it";
    for (uint32_t done = 0, count = 0; done < 2; done += count) {
      tnd_pool_completion completions[2];
      ASSERT_EQ(tnd_pool_poll(pool, completions, 2, 10'000'000'000, &count), TND_OK);
      for (uint32_t k = 0; k < count; k++)
        ASSERT_EQ(completions[k].status, TND_OK);
    }
    target.resize(bytes.size());
    EXPECT_EQ(target, bytes);
  }
}

TEST_F(pool_ring, wakes_a_daemon_and_a_client_that_sleep) {
  connection pool{url_of(*daemon), way::shared_memory};
  for (int i = 0; i < 20; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
    EXPECT_EQ(put(pool, "a", pattern(4096, uint32_t(i))), TND_OK);
  }
}

// The daemon polls the client's rings for a while after a request.
bool is_polled(hostile_client &client) {
  client.send_bytes(
      wire::pool::encode_frame({.kind = uint16_t(kind::statistics), .tag = 1}, empty_message{}));
  EXPECT_TRUE(comes_true([&] { return client.is_drained(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds{2});
  return client.to_daemon().receiver_waits == 0;
}

// On a busy machine the daemon does not poll for moments.
TEST_F(pool_ring, of_the_next_client_is_polled_after_others_have_ended) {
  unsigned const processor_count = std::thread::hardware_concurrency();
  if (processor_count == 1)
    GTEST_SKIP() << "nobody polls on a single processor";
  auto options = small_pool();
  options.ring_poll_ns = 1'000'000'000;
  auto const patient = started(options);
  for (unsigned i = 0; i < processor_count / 2 + 3; i++) {
    hostile_client client{patient->port()};
    EXPECT_TRUE(comes_true([&] { return is_polled(client); })) << "client " << i;
  }
}

}  // namespace
}  // namespace tanada::test
