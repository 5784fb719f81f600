// Streams through rings of shared memory: bytes, wake-ups, descriptors, the end of a side, and
// sides that write anything into the shared memory.
#include "backends/sockets/ring_stream.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <thread>
#include <vector>

#include "backends/sockets/socket_stream.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::backends {
namespace {

constexpr uint64_t spin_ns = 20'000;

uint64_t ring_deadline() {
  return seams::monotonic_clock().now_ns() + 20'000'000'000;
}

struct ring_pair {
  // One mapping for both sides, so that ThreadSanitizer recognizes the bytes.
  explicit ring_pair(uint64_t spin = 0) {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
    auto created = ring_memory::create();
    EXPECT_TRUE(created.ok());
    memory = created.value().memory;
    server = std::make_unique<ring_stream>(socket_stream_create(sockets[0]),
                                           memory,
                                           ring_settings{ring_side::creator, spin, false, true});
    client = std::make_unique<ring_stream>(socket_stream_create(sockets[1]),
                                           memory,
                                           ring_settings{ring_side::joiner, spin, true, true});
  }
  ring_state &to_server() {
    return memory->state(0);
  }
  ring_state &to_client() {
    return memory->state(1);
  }

  std::shared_ptr<ring_memory> memory;
  std::unique_ptr<ring_stream> server, client;
};

result<size_t> send_words(seams::stream &target, std::string text, int descriptor = -1) {
  iovec const part{text.data(), text.size()};
  return target.send({&part, 1}, descriptor);
}

std::string receive_words(seams::stream &source) {
  char bytes[256];
  iovec const part{bytes, sizeof bytes};
  auto size = source.receive({&part, 1});
  return size.ok() ? std::string(bytes, size.value()) : std::string{};
}

status receive_status(seams::stream &source) {
  char bytes[256];
  iovec const part{bytes, sizeof bytes};
  return source.receive({&part, 1}).error();
}

std::vector<char> sequence(uint64_t begin, size_t size) {
  std::vector<char> bytes(size);
  for (size_t i = 0; i < size; i++)
    bytes[i] = char((begin + i) * 2654435761u >> 13);
  return bytes;
}

void send_sequence(seams::stream &target, uint64_t total, uint64_t seed) {
  std::minstd_rand random{unsigned(seed)};
  for (uint64_t sent = 0; sent < total;) {
    uint64_t const size = std::min<uint64_t>(total - sent, 1 + random() % 100'000);
    auto bytes = sequence(sent, size);
    iovec const parts[] = {{bytes.data(), size / 3}, {bytes.data() + size / 3, size - size / 3}};
    auto count = target.send(parts, -1);
    if (count.ok()) {
      sent += count.value();
      continue;
    }
    ASSERT_EQ(count.error(), status::again);
    ASSERT_EQ(target.wait(false, true, ring_deadline()), status::ok);
  }
}

void receive_sequence(seams::stream &source, uint64_t total, uint64_t seed) {
  std::minstd_rand random{unsigned(seed)};
  std::vector<char> bytes(100'000);
  for (uint64_t received = 0; received < total;) {
    size_t const size = 2 + random() % (bytes.size() - 2);
    iovec const parts[] = {{bytes.data(), size / 2}, {bytes.data() + size / 2, size - size / 2}};
    auto count = source.receive(parts);
    if (!count.ok()) {
      ASSERT_EQ(count.error(), status::again);
      ASSERT_EQ(source.wait(true, false, ring_deadline()), status::ok);
      continue;
    }
    auto const expected = sequence(received, count.value());
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), bytes.begin()));
    received += count.value();
  }
}

TEST(ring_stream, carries_bytes_both_ways_at_the_same_time) {
  constexpr uint64_t total = 8 << 20;
  for (uint64_t const spin : {uint64_t{0}, spin_ns}) {
    ring_pair ends{spin};
    std::jthread const server{[&] {
      send_sequence(*ends.server, total, 1);
      receive_sequence(*ends.server, total, 2);
    }};
    receive_sequence(*ends.client, total, 3);
    send_sequence(*ends.client, total, 4);
  }
}

TEST(ring_stream, wakes_a_side_that_sleeps_for_each_of_many_short_messages) {
  for (uint64_t const spin : {uint64_t{0}, uint64_t{1}, spin_ns}) {
    ring_pair ends{spin};
    std::jthread const server{[&] {
      for (int i = 0; i < 2000; i++) {
        while (receive_words(*ends.server).empty())
          ASSERT_EQ(ends.server->wait(true, false, ring_deadline()), status::ok);
        ASSERT_TRUE(send_words(*ends.server, "reply").ok());
      }
    }};
    for (int i = 0; i < 2000; i++) {
      ASSERT_TRUE(send_words(*ends.client, "request").ok());
      std::string reply = receive_words(*ends.client);
      for (; reply.empty(); reply = receive_words(*ends.client))
        ASSERT_EQ(ends.client->wait(true, false, ring_deadline()), status::ok);
      ASSERT_EQ(reply, "reply");
    }
  }
}

TEST(ring_stream, refuses_bytes_without_space_and_has_space_again_after_a_receive) {
  ring_pair ends;
  ASSERT_EQ(send_words(*ends.client, std::string(ring_memory::capacity + 1, 'x')).value(),
            ring_memory::capacity);
  EXPECT_EQ(send_words(*ends.client, "more").error(), status::again);
  EXPECT_EQ(ends.client->wait(false, true, seams::monotonic_clock().now_ns() + 1'000'000),
            status::timed_out);
  EXPECT_EQ(receive_words(*ends.server).size(), 256u);
  EXPECT_EQ(ends.client->wait(false, true, ring_deadline()), status::ok);
  EXPECT_EQ(send_words(*ends.client, std::string(1000, 'y')).value(), 256u);
}

TEST(ring_stream, waits_for_space_by_input_of_the_socket) {
  ring_pair ends;
  auto events = ends.server->events_for({.to_receive = false, .to_send = true});
  EXPECT_TRUE(events.to_receive);
  EXPECT_FALSE(events.to_send) << "the socket is always ready to send";
}

TEST(ring_stream, is_not_armed_while_bytes_are_there) {
  ring_pair ends;
  EXPECT_TRUE(ends.server->arm());
  EXPECT_FALSE(ends.server->has_input());
  ASSERT_TRUE(send_words(*ends.client, "a").ok());
  EXPECT_FALSE(ends.server->arm());
  EXPECT_EQ(receive_words(*ends.server), "a");
  EXPECT_TRUE(ends.server->arm());
}

TEST(ring_stream, delivers_descriptors_with_their_bytes_in_order) {
  ring_pair ends;
  std::vector<int> files;
  for (int i = 0; i < 20; i++) {
    files.push_back(memfd_create("file", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(files.back(), i + 1), 0);
    ASSERT_TRUE(send_words(*ends.server, "d", files.back()).ok());
  }
  EXPECT_EQ(receive_words(*ends.client).size(), files.size());
  for (int i = 0; i < 20; i++) {
    int const received = ends.client->take_descriptor();
    ASSERT_GE(received, 0);
    EXPECT_EQ(lseek(received, 0, SEEK_END), i + 1);
    close(received);
    close(files[size_t(i)]);
  }
  EXPECT_EQ(ends.client->take_descriptor(), -1);
}

TEST(ring_stream, closes_descriptors_that_it_does_not_accept) {
  ring_pair ends;
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK), 0);
  ASSERT_TRUE(send_words(*ends.client, "d", pipe_ends[1]).ok());
  close(pipe_ends[1]);
  EXPECT_EQ(receive_words(*ends.server), "d");
  EXPECT_EQ(receive_status(*ends.server), status::again);
  char byte;
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0) << "the other end of the pipe is still open";
  close(pipe_ends[0]);
  EXPECT_EQ(ends.server->take_descriptor(), -1);
}

TEST(ring_stream, ends_after_the_bytes_that_were_sent_before_the_peer_ended) {
  ring_pair ends;
  ASSERT_TRUE(send_words(*ends.client, "last").ok());
  ends.client.reset();
  EXPECT_EQ(ends.server->wait(true, false, ring_deadline()), status::ok);
  EXPECT_EQ(receive_words(*ends.server), "last");
  EXPECT_EQ(receive_status(*ends.server), status::peer_lost);
  EXPECT_EQ(ends.server->wait(true, false, ring_deadline()), status::ok);
  EXPECT_EQ(receive_status(*ends.server), status::peer_lost);
  EXPECT_EQ(send_words(*ends.server, "to nobody").error(), status::peer_lost);
}

TEST(ring_stream, wakes_a_side_that_sleeps_when_the_peer_ends) {
  ring_pair ends;
  std::jthread const server{[&] {
    seams::monotonic_clock().sleep_ns(20'000'000);
    ends.server.reset();
  }};
  EXPECT_EQ(ends.client->wait(true, false, ring_deadline()), status::ok);
  EXPECT_EQ(receive_status(*ends.client), status::peer_lost);
}

TEST(ring_stream, ends_with_a_peer_whose_position_is_impossible) {
  struct corruption {
    const char *what;
    uint64_t tail, head;  // of the client, after 100 bytes in each direction
    bool ends_receive, ends_send;
  };
  constexpr uint64_t capacity = ring_memory::capacity;
  corruption const corruptions[] = {
      {"as it was", 100, 100, false, false},
      {"more bytes than fit", 100 + capacity + 1, 100, true, false},
      {"a full ring", 100 + capacity, 100, false, false},
      {"bytes taken back", 99, 100, true, false},
      {"all bits of the tail", ~uint64_t{0}, 100, true, false},
      {"the highest bit of the tail", uint64_t{1} << 63, 100, true, false},
      {"bytes received that were never sent", 100, 101 + capacity, false, true},
      {"a head before the beginning", 100, ~uint64_t{0} - capacity, false, true},
      {"the highest bit of the head", 100, uint64_t{1} << 63, false, true}};
  for (const corruption &entry : corruptions) {
    SCOPED_TRACE(entry.what);
    ring_pair ends;
    ASSERT_EQ(send_words(*ends.client, std::string(100, 'c')).value(), 100u);
    ASSERT_EQ(send_words(*ends.server, std::string(100, 's')).value(), 100u);
    ASSERT_EQ(receive_words(*ends.server).size(), 100u);
    ASSERT_EQ(receive_words(*ends.client).size(), 100u);
    ends.to_server().tail = entry.tail;
    ends.to_client().head = entry.head;
    ends.to_server().receiver_waits = 77;
    ends.to_client().sender_waits = 0xFFFFFFFF;
    std::vector<char> bytes(capacity + 1000);
    iovec const part{bytes.data(), bytes.size()};
    auto received = ends.server->receive({&part, 1});
    EXPECT_EQ(received.error() == status::peer_lost, entry.ends_receive);
    EXPECT_TRUE(!received.ok() || received.value() <= capacity);
    // The head is read once the ring seems full.
    status last = status::ok;
    for (int i = 0; i < 3 && last == status::ok; i++)
      last = ends.server->send({&part, 1}, -1).error();
    EXPECT_EQ(last == status::peer_lost, entry.ends_send || entry.ends_receive);
  }
}

// Whatever the peer writes, a side reads and writes only its own memory and the rings, and ends.
TEST(ring_stream, survives_a_peer_that_writes_at_random) {
  for (unsigned seed = 1; seed <= 20; seed++) {
    ring_pair ends;
    std::jthread const peer{[&](const std::stop_token &stopped) {
      std::minstd_rand random{seed};
      while (!stopped.stop_requested()) {
        ring_state &state = ends.memory->state(random() % 2);
        uint64_t const values[] = {random() % 200'000,
                                   state.tail + random() % 100,
                                   ~uint64_t{0},
                                   uint64_t(random()) << 32};
        (random() % 2 == 0 ? state.tail : state.head) = values[random() % 4];
        state.receiver_waits = uint32_t(random() % 2);
        state.sender_waits = uint32_t(random());
      }
    }};
    std::vector<char> bytes(70'000);
    iovec const part{bytes.data(), bytes.size()};
    for (int i = 0; i < 2000; i++) {
      (void)ends.server->receive({&part, 1});
      (void)ends.server->send({&part, 1}, -1);
      (void)ends.server->arm();
    }
  }
}

TEST(ring_memory, refuses_memory_of_another_size_or_without_seals) {
  int const small = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(small, off_t(ring_memory::size - 1)), 0);
  ASSERT_EQ(fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_EQ(ring_memory::map(small).error(), status::invalid);
  int const unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(unsealed, off_t(ring_memory::size)), 0);
  EXPECT_EQ(ring_memory::map(unsealed).error(), status::invalid);
  EXPECT_EQ(ring_memory::map(-1).error(), status::invalid);
  close(small);
  close(unsealed);
}

TEST(ring_memory, cannot_be_resized_by_the_process_that_receives_it) {
  auto created = ring_memory::create();
  ASSERT_TRUE(created.ok());
  int const file = created.value().file.descriptor();
  EXPECT_NE(ftruncate(file, 0), 0);
  EXPECT_NE(ftruncate(file, off_t(2 * ring_memory::size)), 0);
  EXPECT_TRUE(ring_memory::map(file).ok());
}

}  // namespace
}  // namespace tanada::backends
