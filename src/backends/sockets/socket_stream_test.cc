#include "backends/sockets/socket_stream.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "seams/clock/clock.hpp"

namespace tanada::backends {
namespace {

uint64_t soon() {
  return seams::monotonic_clock().now_ns() + 5'000'000'000;
}

struct pair {
  std::unique_ptr<seams::stream> client, server;
};

pair connected(listener &source_listener, result<std::unique_ptr<seams::stream>> client) {
  EXPECT_TRUE(client.ok());
  for (uint64_t const deadline_ns = soon(); seams::monotonic_clock().now_ns() < deadline_ns;) {
    auto server = source_listener.accept();
    if (server.ok())
      return {std::move(client).value(), std::move(server).value()};
  }
  return {};
}

pair tcp_pair() {
  auto acceptor = tcp_listen("127.0.0.1", 0);
  EXPECT_TRUE(acceptor.ok());
  return connected(acceptor.value(), tcp_connect("127.0.0.1", acceptor.value().port(), soon()));
}

pair unix_pair() {
  std::string const name = "tanada-test-" + std::to_string(getpid());
  auto acceptor = unix_listen(name);
  EXPECT_TRUE(acceptor.ok());
  return connected(acceptor.value(), unix_connect(name, soon()));
}

std::string text_of(seams::stream &source) {
  char bytes[64];
  iovec const part{bytes, sizeof bytes};
  EXPECT_EQ(source.wait(true, false, soon()), status::ok);
  auto const size = source.receive({&part, 1});
  return size.ok() ? std::string(bytes, const_cast<result<size_t> &>(size).value()) : std::string{};
}

result<size_t> send_text(seams::stream &target, std::string text, int descriptor = -1) {
  iovec const part{text.data(), text.size()};
  return target.send({&part, 1}, descriptor);
}

TEST(socket_stream, memory_that_cannot_be_touched_costs_no_bytes) {
  void *const hole = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(hole, MAP_FAILED);
  iovec const part{hole, 64};
  for (auto make : {tcp_pair, unix_pair}) {
    pair ends = make();
    EXPECT_EQ(ends.client->send({&part, 1}).error(), status::fault);
    EXPECT_TRUE(send_text(*ends.client, "still here").ok());
    EXPECT_EQ(ends.server->wait(true, false, soon()), status::ok);
    EXPECT_EQ(ends.server->receive({&part, 1}).error(), status::fault);
    EXPECT_EQ(text_of(*ends.server), "still here");
  }
  munmap(hole, 4096);
}

TEST(socket_stream, carries_bytes_both_ways) {
  for (auto make : {tcp_pair, unix_pair}) {
    pair ends = make();
    EXPECT_TRUE(send_text(*ends.client, "to the server").ok());
    EXPECT_EQ(text_of(*ends.server), "to the server");
    EXPECT_TRUE(send_text(*ends.server, "to the client").ok());
    EXPECT_EQ(text_of(*ends.client), "to the client");
  }
}

TEST(socket_stream, has_nothing_before_something_comes) {
  pair ends = tcp_pair();
  char byte;
  iovec const part{&byte, 1};
  EXPECT_EQ(ends.client->receive({&part, 1}).error(), status::again);
  EXPECT_EQ(ends.client->wait(true, false, seams::monotonic_clock().now_ns() + 1'000'000),
            status::timed_out);
}

TEST(socket_stream, tells_that_the_peer_has_gone) {
  for (auto make : {tcp_pair, unix_pair}) {
    pair ends = make();
    ends.server.reset();
    EXPECT_EQ(ends.client->wait(true, false, soon()), status::ok);
    char byte;
    iovec const part{&byte, 1};
    EXPECT_EQ(ends.client->receive({&part, 1}).error(), status::peer_lost);
  }
}

TEST(socket_stream, a_descriptor_goes_over_unix_sockets_only) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  pair local = unix_pair(), remote = tcp_pair();
  EXPECT_EQ(send_text(*remote.server, "x", pipe_ends[1]).error(), status::not_supported);
  ASSERT_TRUE(send_text(*local.server, "x", pipe_ends[1]).ok());
  EXPECT_EQ(text_of(*local.client), "x");
  int const received = local.client->take_descriptor();
  ASSERT_GE(received, 0);
  EXPECT_EQ(local.client->take_descriptor(), -1);
  EXPECT_EQ(write(received, "y", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  close(received);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST(socket_stream, knows_this_node) {
  pair ends = tcp_pair();
  EXPECT_TRUE(is_to_this_node(*ends.client));
  EXPECT_FALSE(ends.client->is_local());
  EXPECT_TRUE(unix_pair().client->is_local());
}

TEST(socket_stream, models_no_link_within_this_node) {
  pair const ends = tcp_pair();
  for (const seams::stream *const end : {ends.client.get(), ends.server.get()}) {
    char name[16] = "";
    socklen_t size = sizeof name;
    ASSERT_EQ(getsockopt(end->descriptor(), IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
    EXPECT_STREQ(name, "reno");
  }
}

TEST(socket_stream, nobody_there_is_told_with_a_reason) {
  uint16_t port = 0;
  {
    auto closed_listener = tcp_listen("127.0.0.1", 0);
    ASSERT_TRUE(closed_listener.ok());
    port = closed_listener.value().port();
  }
  EXPECT_EQ(tcp_connect("127.0.0.1", port, soon()).error(), status::peer_lost);
  EXPECT_EQ(unix_connect("tanada-nobody-is-here", soon()).error(), status::peer_lost);
  EXPECT_EQ(tcp_connect("no.such.name.invalid", 1, soon()).error(), status::invalid);
}

TEST(socket_stream, a_taken_port_is_busy) {
  auto first = tcp_listen("127.0.0.1", 0);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(tcp_listen("127.0.0.1", first.value().port()).error(), status::busy);
}

TEST(socket_stream, loopback_addresses_are_known) {
  EXPECT_TRUE(is_loopback("127.0.0.1").value());
  EXPECT_TRUE(is_loopback("127.1.2.3").value());
  EXPECT_TRUE(is_loopback("::1").value());
  EXPECT_FALSE(is_loopback("0.0.0.0").value());
  EXPECT_FALSE(is_loopback("10.0.0.1").value());
  EXPECT_EQ(is_loopback("no.such.name.invalid").error(), status::invalid);
}

int option_of(const seams::stream &connection, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  getsockopt(connection.descriptor(), level, name, &value, &size);
  return value;
}

// A host that loses power sends nothing that would end a connection.
TEST(socket_stream, both_ends_of_tcp_look_for_a_peer_that_vanished) {
  auto acceptor = tcp_listen("127.0.0.1", 0, 8'000'000'000);
  ASSERT_TRUE(acceptor.ok());
  pair const both =
      connected(acceptor.value(), tcp_connect("127.0.0.1", acceptor.value().port(), soon()));
  ASSERT_NE(both.server, nullptr);
  EXPECT_EQ(option_of(*both.server, SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option_of(*both.server, IPPROTO_TCP, TCP_USER_TIMEOUT), 8000);
  EXPECT_EQ(option_of(*both.server, IPPROTO_TCP, TCP_KEEPIDLE), 2);
  EXPECT_EQ(option_of(*both.server, IPPROTO_TCP, TCP_KEEPINTVL), 2);
  EXPECT_EQ(option_of(*both.client, SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option_of(*both.client, IPPROTO_TCP, TCP_USER_TIMEOUT),
            int(stream_lost_after_ns / 1'000'000));
}

TEST(socket_stream, the_user_at_the_other_end_is_known_within_a_node) {
  for (bool const is_tcp : {true, false}) {
    pair const both = is_tcp ? tcp_pair() : unix_pair();
    ASSERT_NE(both.server, nullptr);
    EXPECT_EQ(both.server->peer_user(), geteuid()) << is_tcp;
    EXPECT_EQ(both.client->peer_user(), geteuid()) << is_tcp;
  }
}

// The child's user namespace maps no user, so all users, including its own, have the same number
// there.
TEST(socket_stream, the_user_at_the_other_end_is_not_known_in_a_namespace_that_does_not_map_it) {
  pair const tcp = tcp_pair();
  pair const local = unix_pair();
  ASSERT_NE(tcp.server, nullptr);
  ASSERT_NE(local.server, nullptr);
  constexpr int no_namespaces = 77;
  pid_t const child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUSER) != 0)
      _exit(no_namespaces);
    int const known_count =
        int(tcp.server->peer_user().has_value()) + int(local.server->peer_user().has_value());
    _exit(known_count);
  }
  ASSERT_GT(child, 0);
  int result = 0;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  if (WIFEXITED(result) && WEXITSTATUS(result) == no_namespaces)
    GTEST_SKIP() << "no user namespaces for this user";
  EXPECT_EQ(result, 0);
}

// Messages about a connection that its peer reset name the peer.
TEST(socket_stream, the_name_of_the_other_end_outlives_the_connection) {
  auto acceptor = tcp_listen("127.0.0.1", 0);
  ASSERT_TRUE(acceptor.ok());
  pair both =
      connected(acceptor.value(), tcp_connect("127.0.0.1", acceptor.value().port(), soon()));
  ASSERT_NE(both.server, nullptr);
  std::string const name = "127.0.0.1:" + std::to_string(acceptor.value().port());
  EXPECT_EQ(both.client->peer(), name);
  char byte = 'x';
  iovec const part{&byte, 1};
  ASSERT_TRUE(both.client->send({&part, 1}).ok());
  ASSERT_EQ(both.server->wait(true, false, soon()), status::ok);
  both.server.reset();  // with an unread byte
  ASSERT_EQ(both.client->wait(true, false, soon()), status::ok);
  EXPECT_EQ(both.client->receive({&part, 1}).error(), status::peer_lost);
  EXPECT_EQ(both.client->peer(), name);
  EXPECT_EQ(both.client->peer_host(), "127.0.0.1");
}

// The kernel reports sockets without an owner as root's.
TEST(socket_stream, a_closed_end_is_no_users) {
  pair both = tcp_pair();
  ASSERT_NE(both.server, nullptr);
  both.client.reset();
  EXPECT_EQ(both.server->peer_user(), std::nullopt);
}

}  // namespace
}  // namespace tanada::backends
