// tests/contract/stream_set_contract_sockets.hpp: the contract of stream sets that use the system's
// sockets, and in which several threads may wait.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>

#include "contract/stream_set_contract.hpp"

namespace tanada::contract {

class stream_set_sockets_contract : public stream_set_contract {
 protected:
  // Returns a plain socket that is connected to the node.
  static int plain_to(const seams::socket_address &address) {
    int const made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    plain_connect(made, address);
    return made;
  }
  static void plain_connect(int socket, const seams::socket_address &address) {
    sockaddr_storage system{};
    size_t const size = seams::socket_address_to(address, &system, sizeof system);
    EXPECT_EQ(connect(socket, reinterpret_cast<sockaddr *>(&system), socklen_t(size)), 0);
  }
  static int option(int socket, int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(getsockopt(socket, level, name, &value, &size), 0);
    return value;
  }
  // This process's sockets whose local or remote address is the given one.
  static std::vector<int> connected_with(const seams::socket_address &at) {
    std::vector<int> all;
    for (auto const &each : std::filesystem::directory_iterator{"/proc/self/fd"}) {
      int const descriptor = std::stoi(each.path().filename());
      for (auto const name : {getpeername, getsockname}) {
        sockaddr_storage system{}, peer{};
        socklen_t size = sizeof system, peer_size = sizeof peer;
        if (getpeername(descriptor, reinterpret_cast<sockaddr *>(&peer), &peer_size) != 0)
          continue;
        if (name(descriptor, reinterpret_cast<sockaddr *>(&system), &size) != 0)
          continue;
        if (auto found = seams::socket_address_from(&system, size);
            found.ok() && found.value() == at)
          all.push_back(descriptor);
      }
    }
    return all;
  }
  static uint64_t used_processor_ns() {
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return uint64_t(used.tv_sec) * 1'000'000'000 + uint64_t(used.tv_nsec);
  }
};

TEST_P(stream_set_sockets_contract, ipv6) {
  seams::socket_address at{.family = seams::socket_address::family_kind::ipv6};
  at.bytes[15] = 1;
  int const probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_storage system{};
  size_t const size = seams::socket_address_to(at, &system, sizeof system);
  bool const is_there =
      probe >= 0 && bind(probe, reinterpret_cast<sockaddr *>(&system), socklen_t(size)) == 0;
  if (probe >= 0)
    close(probe);
  if (!is_there)
    GTEST_SKIP() << "no ::1 here";
  auto &a = driver().node({}, at), &b = driver().node({}, at);
  auto [ours, theirs] = driver().pair(a, b);
  stream_end &to = *theirs;
  EXPECT_EQ(b.set->peer(to.id).bytes, at.bytes);
  ASSERT_TRUE(driver().until([&, ours = ours] {
    if (ours->sent < 1'000)
      a.send(*ours, 0, 1'000 - ours->sent);
    return to.received == 1'000;
  }));
  EXPECT_TRUE(to.is_right);
}

TEST_P(stream_set_sockets_contract, connected_sockets_are_taken_over) {
  for (bool const is_local : {true, false}) {
    auto &a = driver().node(), &b = driver().node();
    int two[2];
    if (is_local) {
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, two), 0);
    } else {
      two[0] = plain_to(b.address);
      ASSERT_TRUE(driver().until([&] { return b.ends.size() == 1; }));
    }
    auto &ours = a.add();
    ours.id = a.set->adopt(two[0], ours.word).value();
    ours.is_connected = true;
    if (is_local) {
      auto &theirs = b.add();
      theirs.id = b.set->adopt(two[1], theirs.word).value();
      theirs.is_connected = true;
    }
    auto &theirs = b.ends[0];
    ASSERT_TRUE(driver().until([&] {
      if (ours.sent < 400'000)
        a.send(ours, 0, 400'000 - ours.sent);
      if (theirs.sent < 400'000)
        b.send(theirs, 0, 400'000 - theirs.sent);
      return theirs.received == 400'000 && ours.received == 400'000;
    }));
    EXPECT_TRUE(ours.is_right && theirs.is_right);
    a.close(ours);
    EXPECT_TRUE(driver().until([&] { return theirs.ended_count == 1; }));
  }
}

TEST_P(stream_set_sockets_contract, a_peer_that_acknowledges_nothing_will_be_noticed) {
  auto &a = driver().node({.peer_timeout_ns = 20'000'000'000}), &b = driver().node();
  int const taken = plain_to(b.address);
  auto &ours = a.add();
  ASSERT_TRUE(a.set->adopt(taken, ours.word).ok());
  EXPECT_EQ(option(taken, SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option(taken, IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(option(taken, IPPROTO_TCP, TCP_USER_TIMEOUT), 20'000);
  int const idle_s = option(taken, IPPROTO_TCP, TCP_KEEPIDLE),
            interval_s = option(taken, IPPROTO_TCP, TCP_KEEPINTVL);
  int const count = option(taken, IPPROTO_TCP, TCP_KEEPCNT);
  EXPECT_LE(idle_s + interval_s * count, 20);
  EXPECT_GE(interval_s, 1);
}

// A congestion control that models a link would only delay bytes within the node.
TEST_P(stream_set_sockets_contract, connections_within_the_node_use_no_model_of_a_link) {
  auto &a = driver().node(), &b = driver().node();
  driver().pair(a, b);
  auto const both = connected_with(b.address);
  ASSERT_EQ(both.size(), 2u);
  for (int const each : both) {
    std::array<char, 16> name{};
    socklen_t size = name.size();
    ASSERT_EQ(getsockopt(each, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size), 0);
    EXPECT_STREQ(name.data(), "reno");
  }
}

TEST_P(stream_set_sockets_contract, a_connect_that_nobody_answers_times_out) {
  // A listener whose queue is full drops connection requests.
  int const listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_storage system{};
  socklen_t length = socklen_t(seams::socket_address_to(loopback(), &system, sizeof system));
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr *>(&system), length), 0);
  ASSERT_EQ(listen(listener, 0), 0);
  length = sizeof system;
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr *>(&system), &length), 0);
  seams::socket_address const at = seams::socket_address_from(&system, length).value();
  auto &a = driver().node({.peer_timeout_ns = 1'500'000'000});
  std::vector<stream_end *> all;
  for (int i = 0; i < 4; i++)
    all.push_back(&driver().connect(a, at));
  ASSERT_TRUE(driver().until([&] { return all[3]->ended_count == 1; }));
  EXPECT_EQ(all[3]->why, status::timed_out);
  EXPECT_FALSE(all[3]->is_connected);
  close(listener);
}

TEST_P(stream_set_sockets_contract, a_reset_ends_the_connection) {
  for (bool const has_bytes : {false, true}) {
    auto &b = driver().node();
    int const plain = plain_to(b.address);
    ASSERT_TRUE(driver().until([&] { return b.ends.size() == 1; }));
    auto &theirs = b.ends[0];
    if (has_bytes)
      b.send(theirs, 0, 1'000);
    linger const reset{.l_onoff = 1, .l_linger = 0};
    ASSERT_EQ(setsockopt(plain, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    close(plain);
    ASSERT_TRUE(driver().until([&] { return theirs.ended_count == 1; }));
    EXPECT_EQ(theirs.why, status::peer_lost);
    driver().settle();
    EXPECT_EQ(theirs.ended_count, 1u);
  }
}

// After a send has failed because the peer has closed, on_closed() is called once as well.
TEST_P(stream_set_sockets_contract, a_send_that_fails_is_followed_by_the_end) {
  auto &b = driver().node();
  int const plain = plain_to(b.address);
  ASSERT_TRUE(driver().until([&] { return b.ends.size() == 1; }));
  auto &theirs = b.ends[0];
  linger const reset{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(setsockopt(plain, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
  close(plain);
  std::byte byte{};
  iovec const part{&byte, 1};
  status code = status::ok;
  for (int i = 0; i < 100 && code == status::ok; i++) {
    code = b.set->send(theirs.id, {&part, 1}).error();
    usleep(1'000);
  }
  EXPECT_EQ(code, status::peer_lost);
  EXPECT_EQ(theirs.ended_count, 0u) << "on_closed() called within send()";
  ASSERT_TRUE(driver().until([&] { return theirs.ended_count == 1; }));
  driver().settle();
  EXPECT_EQ(theirs.ended_count, 1u);
}

// This also applies where the peer is connected, and the caller's memory is invalid.
TEST_P(stream_set_sockets_contract, a_send_from_bad_memory_ends_the_connection) {
  auto &a = driver().node(), &b = driver().node();
  auto [ours, theirs] = driver().pair(a, b);
  stream_end &from = *ours, &to = *theirs;
  void *const nothing = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(nothing, MAP_FAILED);
  iovec const part{nothing, 4096};
  EXPECT_EQ(a.set->send(from.id, {&part, 1}).error(), status::peer_lost);
  EXPECT_TRUE(driver().until([&] { return from.ended_count == 1 && to.ended_count == 1; }));
  munmap(nothing, 4096);
}

TEST_P(stream_set_sockets_contract, the_descriptor_is_readable_when_there_is_something) {
  auto &a = driver().node(), &b = driver().node();
  auto [ours, theirs] = driver().pair(a, b);
  stream_end &from = *ours, &to = *theirs;
  driver().settle();
  pollfd look{.fd = b.set->descriptor(), .events = POLLIN, .revents = 0};
  ASSERT_GE(look.fd, 0);
  EXPECT_EQ(poll(&look, 1, 20), 0) << "there is nothing";
  for (int i = 0; i < 20; i++) {
    a.send(from, 0, 1);
    ASSERT_EQ(poll(&look, 1, 10'000), 1);
    for (int k = 0; k < 1'000 && to.received < from.sent; k++)
      b.set->progress();
    ASSERT_EQ(to.received, from.sent);
    driver().settle();
    EXPECT_EQ(poll(&look, 1, 0), 0) << "readable for ever";
  }
  plain_to(b.address);
  EXPECT_EQ(poll(&look, 1, 10'000), 1) << "somebody connects";
  driver().settle();
}

TEST_P(stream_set_sockets_contract, a_wake_ends_every_wait_under_way) {
  auto &a = driver().node();
  for (size_t const count : {1, 5}) {
    std::atomic<uint32_t> about_to_wait = 0, woken = 0;
    std::vector<std::thread> waiters;
    for (size_t i = 0; i < count; i++) {
      waiters.emplace_back([&] {
        about_to_wait++;
        if (a.set->wait(seams::monotonic_clock().now_ns() + 10'000'000'000) == status::ok)
          woken++;
      });
    }
    while (about_to_wait < count)
      usleep(1'000);
    usleep(100'000);  // all of them are asleep now
    uint64_t const begin_ns = seams::monotonic_clock().now_ns();
    a.set->wake();
    for (auto &each : waiters)
      each.join();
    EXPECT_EQ(woken, count);
    EXPECT_LT(seams::monotonic_clock().now_ns() - begin_ns, 5'000'000'000u);
    EXPECT_EQ(a.set->wait(seams::monotonic_clock().now_ns() + 10'000'000), status::timed_out)
        << "a wake is left over";
  }
}

// Two threads wait on the set and drive it in turn. Arriving bytes end a wait, whichever thread
// drove the set last.
TEST_P(stream_set_sockets_contract, threads_hand_the_set_over) {
  auto &a = driver().node(), &b = driver().node();
  auto [ours, theirs] = driver().pair(a, b);
  stream_end &from = *ours, &to = *theirs;
  to.how = taking::turns;
  constexpr uint64_t round_count = 60;
  std::mutex driving;
  std::atomic<uint64_t> came = 0;
  auto const serve = [&] {
    uint64_t const limit_ns = seams::monotonic_clock().now_ns() + 30'000'000'000;
    while (came < round_count * 1'000 && seams::monotonic_clock().now_ns() < limit_ns) {
      (void)b.set->wait(seams::monotonic_clock().now_ns() + 2'000'000'000);
      std::lock_guard lock{driving};
      b.set->progress();
      came = to.received;
    }
    b.set->wake();
  };
  std::thread one{serve}, two{serve};
  for (uint64_t i = 0; i < round_count; i++) {
    size_t sent = 0;
    while (sent < 1'000)
      sent += a.send(from, 0, 1'000 - sent);
    uint64_t const limit_ns = seams::monotonic_clock().now_ns() + 1'500'000'000;
    while (came < (i + 1) * 1'000 && seams::monotonic_clock().now_ns() < limit_ns)
      usleep(100);
    EXPECT_EQ(came, (i + 1) * 1'000) << "the bytes were not received in time";
  }
  one.join();
  two.join();
  EXPECT_TRUE(to.is_right);
}

// An implementation may poll the busiest connection in another way than the others. Its bytes, its
// space for sends, its pause and its end must still wake a waiting thread and call the handler.
TEST_P(stream_set_sockets_contract, an_owner_that_looks_seldom_is_told_all_the_same) {
  auto &a = driver().node({.may_skip_idle = true}), &b = driver().node();
  auto [first_from, first_to] = driver().pair(b, a);
  auto [second_from, second_to] = driver().pair(b, a);
  stream_end &from = *first_from, &to = *first_to, &other_from = *second_from,
             &other_to = *second_to;
  auto const comes = [&](stream_end &sender, stream_end &receiver) {
    if (sender.sent == receiver.received)
      b.send(sender, 0, 1);
    for (int i = 0; i < 10'000 && receiver.received < sender.sent; i++)
      a.set->progress();
    return receiver.received == sender.sent;
  };
  auto const talk = [&](stream_end &sender, stream_end &receiver) {
    bool has_arrived = true;
    for (int i = 0; i < 200 && has_arrived; i++)
      has_arrived = comes(sender, receiver);
    return has_arrived;
  };
  for (int i = 0; i < 3; i++) {
    ASSERT_TRUE(talk(from, to));
    for (int fruitless = 0; fruitless < 20; fruitless++)
      a.set->progress();
    b.send(from, 0, 1);
    EXPECT_EQ(a.set->wait(seams::monotonic_clock().now_ns() + 5'000'000'000), status::ok)
        << "the wait did not end although bytes arrived";
    ASSERT_TRUE(comes(from, to));
    ASSERT_TRUE(talk(from, to) && comes(other_from, other_to) && talk(other_from, other_to) &&
                comes(from, to));
  }
  ASSERT_TRUE(talk(from, to));
  if (a.set->pause(to.id) == status::ok) {
    b.send(from, 0, 1);
    for (int fruitless = 0; fruitless < 100; fruitless++)
      a.set->progress();
    EXPECT_LT(to.received, from.sent);
    ASSERT_EQ(a.set->resume(to.id), status::ok);
    ASSERT_TRUE(comes(from, to) && talk(from, to));
  }
  b.is_driven = false;
  while (a.send(to, 0, 1 << 20) == 1 << 20) {}
  ASSERT_TRUE(talk(from, to));
  b.is_driven = true;
  EXPECT_TRUE(driver().until([&] { return to.writable_count == 1; }));
  ASSERT_TRUE(talk(from, to));
  b.close(from);
  EXPECT_TRUE(driver().until([&] { return to.ended_count == 1; }));
  ASSERT_TRUE(talk(other_from, other_to));
  pollfd look{.fd = a.set->descriptor(), .events = POLLIN, .revents = 0};
  for (int i = 0; i < 2; i++) {
    b.send(other_from, 0, 1);
    EXPECT_EQ(poll(&look, 1, 5'000), 1) << "the descriptor is not readable although bytes arrived";
    ASSERT_TRUE(talk(other_from, other_to));
  }
}

// While a socket is lent, its borrower reads it, and the set still sends, reports space and closes.
TEST_P(stream_set_sockets_contract, a_lent_socket_is_read_by_its_borrower_only) {
  auto &a = driver().node(), &b = driver().node();
  auto [from_end, to_end] = driver().pair(b, a);
  stream_end &from = *from_end, &to = *to_end;
  ASSERT_TRUE(driver().until([&] {
    if (from.sent == 0)
      b.send(from, 0, 1000);
    return to.received == 1000;
  }));
  auto const lent = a.set->lend(to.id);
  if (!lent.ok() && lent.error() == status::not_supported)
    GTEST_SKIP() << "this implementation cannot lend sockets";
  ASSERT_TRUE(lent.ok());
  int const socket = result<int>{lent}.value();
  EXPECT_FALSE(a.set->lend(to.id).ok());
  b.send(from, 0, 1000);
  for (int i = 0; i < 1000; i++)
    a.set->progress();
  EXPECT_EQ(to.received, 1000u);
  std::array<std::byte, 1000> bytes;
  size_t read_size = 0;
  EXPECT_TRUE(driver().until([&] {
    ssize_t const size =
        recv(socket, bytes.data() + read_size, bytes.size() - read_size, MSG_DONTWAIT);
    read_size += size > 0 ? size_t(size) : 0;
    return read_size == bytes.size();
  }));
  b.is_driven = false;
  while (a.send(to, 0, 1 << 20) == 1 << 20) {}
  b.is_driven = true;
  EXPECT_TRUE(driver().until([&] { return to.writable_count == 1; }));
  uint64_t const deadline_ns = seams::monotonic_clock().now_ns() + 20'000'000;
  b.send(from, 0, 1);
  EXPECT_TRUE(driver().until([&] { return from.received == to.sent; }));
  EXPECT_EQ(a.set->wait(deadline_ns), status::timed_out) << "bytes for the borrower end a wait";
}

TEST_P(stream_set_sockets_contract, a_reclaimed_socket_is_read_by_the_set_again) {
  auto &a = driver().node(), &b = driver().node();
  auto [from_end, to_end] = driver().pair(b, a);
  stream_end &from = *from_end, &to = *to_end;
  if (a.set->lend(to.id).error() == status::not_supported)
    GTEST_SKIP() << "this implementation cannot lend sockets";
  b.send(from, 0, 1000);
  ASSERT_EQ(a.set->reclaim(to.id), status::ok);
  EXPECT_TRUE(driver().until([&] { return to.received == 1000; }));
  EXPECT_TRUE(to.is_right);
  ASSERT_TRUE(a.set->lend(to.id).ok());
  b.close(from);
  for (int i = 0; i < 1000; i++)
    a.set->progress();
  EXPECT_EQ(to.ended_count, 0u);
  ASSERT_EQ(a.set->reclaim(to.id), status::ok);
  EXPECT_TRUE(driver().until([&] { return to.ended_count == 1; }));
}

TEST_P(stream_set_sockets_contract, a_descriptor_of_its_owner_ends_a_wait) {
  auto &a = driver().node();
  std::array<int, 2> ends;
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  status const watched = a.set->watch_also(ends[0]);
  if (watched == status::ok) {
    uint64_t const soon_ns = seams::monotonic_clock().now_ns() + 20'000'000;
    EXPECT_EQ(a.set->wait(soon_ns), status::timed_out);
    ASSERT_EQ(write(ends[1], "x", 1), 1);
    EXPECT_EQ(a.set->wait(soon_ns + 10'000'000'000), status::ok);
    EXPECT_EQ(a.set->progress(), 0u);
    pollfd look{.fd = a.set->descriptor(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&look, 1, 5'000), 1);
  }
  close(ends[0]);
  close(ends[1]);
  if (watched == status::not_supported)
    GTEST_SKIP() << "this implementation cannot watch other descriptors";
  EXPECT_EQ(watched, status::ok);
}

// A thread that has driven the set ends, and with it the state that the system keeps for each
// thread.
TEST_P(stream_set_sockets_contract, a_thread_that_drove_may_end) {
  auto &a = driver().node(), &b = driver().node();
  a.accept_how = taking::turns;
  b.accept_how = taking::turns;
  stream_end *from = nullptr, *to = nullptr;
  std::thread{[&] {
    std::tie(from, to) = driver().pair(a, b);
  }}.join();
  for (uint64_t i = 1; i <= 20; i++) {
    bool came = false;
    std::thread{[&] {
      came = driver().until([&] {
        if (from->sent < i * 50'000)
          a.send(*from, 0, i * 50'000 - from->sent);
        return to->received == i * 50'000;
      });
    }}.join();
    ASSERT_TRUE(came);
    size_t const before = b.ends.size();
    std::thread{[&] {
      driver().connect(a, b.address);
    }}.join();
    ASSERT_TRUE(
        driver().until([&] { return b.ends.size() == before + 1 && a.ends.back().is_connected; }));
  }
  EXPECT_TRUE(to->is_right);
}

TEST_P(stream_set_sockets_contract, without_descriptors_connections_wait_to_be_accepted) {
  auto const body = [&](bool is_limited_later) {
    rlimit less{};
    getrlimit(RLIMIT_NOFILE, &less);
    less.rlim_cur = 100;
    if (!is_limited_later)
      setrlimit(RLIMIT_NOFILE, &less);
    auto &b = driver().node();
    driver().settle();
    setrlimit(RLIMIT_NOFILE, &less);
    std::vector<int> plain, others;
    for (int i = 0; i < 12; i++)
      plain.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    for (int next = dup(0); next >= 0; next = dup(0))
      others.push_back(next);
    for (int i = 0; i < 3; i++)
      close(others[size_t(i)]);
    for (int const each : plain)
      plain_connect(each, b.address);
    uint64_t const end_ns = seams::monotonic_clock().now_ns() + 500'000'000,
                   used_ns = used_processor_ns();
    while (seams::monotonic_clock().now_ns() < end_ns) {
      b.set->progress();
      (void)b.set->wait(end_ns);
    }
    bool const is_busy = used_processor_ns() - used_ns > 250'000'000;
    bool const is_short =
        b.ends.size() == 3 && b.set->connect(b.address, {}, 77).error() == status::too_many_files;
    for (size_t i = 3; i < others.size(); i++)
      close(others[i]);
    bool const is_over = driver().until([&] { return b.ends.size() == 12; });
    // Destructors must not run in a forked child of a program with several threads.
    _exit(is_busy ? 3 : !is_short ? 4 : !is_over ? 5 : 0);
  };
  for (bool const is_limited_later : {false, true})
    EXPECT_EXIT(body(is_limited_later), testing::ExitedWithCode(0), "too many files")
        << is_limited_later;
}

}  // namespace tanada::contract
