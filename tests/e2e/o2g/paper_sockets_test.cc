// tanada/o2g.h and the behaviour of sockets: full buffers, broken connections, garbage, many
// sockets.
#include <fcntl.h>
#include <sys/resource.h>

#include <deque>
#include <thread>

#include "loopback_listener.hpp"
#include "paper_process.hpp"

namespace tanada::o2g::calls {
namespace {

TEST(seed_sockets, the_descriptor_stays_the_programs) {
  paper_process process{1};
  auto const [peer, ours] = tcp_pair();
  EXPECT_EQ(o2g_register_socket(ours, 0), -EEXIST);
  EXPECT_EQ(o2g_register_socket(ours, -1), -EINVAL);
  EXPECT_EQ(o2g_register_socket(ours, 1), -EMFILE);
  EXPECT_EQ(o2g_register_socket(1'000'000, 1), -EMFILE);
  EXPECT_EQ(fcntl(ours, F_GETFL) & O_NONBLOCK, 0);
  ::close(ours);
  ::close(peer);
}

TEST(seed_sockets, what_is_no_connected_stream) {
  ASSERT_EQ(o2g_init(4), TND_OK);
  int const datagrams = socket(AF_INET, SOCK_DGRAM, 0), alone = socket(AF_INET, SOCK_STREAM, 0);
  auto const [peer, ours] = tcp_pair();
  EXPECT_EQ(o2g_register_socket(datagrams, 0), -EINVAL);
  EXPECT_EQ(o2g_register_socket(alone, 0), -EINVAL);
  EXPECT_EQ(o2g_register_socket(1'000'000, 0), -EBADF);
  EXPECT_EQ(o2g_register_socket(ours, 0), TND_OK);
  EXPECT_EQ(fcntl(ours, F_GETFL) & O_NONBLOCK, 0);  // the program's writes still block
  EXPECT_EQ(o2g_fini(), TND_OK);
  EXPECT_EQ(::write(ours, "x", 1), 1);  // still open
  for (int const each : {datagrams, alone, ours, peer})
    ::close(each);
}

// Nothing is lost, and at most the area and 64 KiB are read.
TEST(seed_sockets, a_full_dump_area_holds_the_sender_back) {
  paper_process process{2, 64 << 10};
  constexpr int count = 2000;
  std::thread sender{[&] {
    for (int i = 0; i < count; i++)
      write_all(process.peers[0], message_of(0, i, std::string(1000, char('a' + i % 26))));
  }};
  ASSERT_TRUE(until([] { return statistics().blocked_count == 1; }));
  receive_all();
  uint64_t const fit = statistics().unexpected_count;
  EXPECT_GT(fit, 20u);
  EXPECT_LE(fit, 64u);
  // Messages of the other peer are still received.
  receive other{1, 1, 10};
  ASSERT_EQ(o2g_put_entry(&other.entry), TND_OK);
  write_all(process.peers[1], message_of(1, 1, "hello"));
  EXPECT_TRUE(until([&] { return other.is_done(); }));
  for (int i = 0; i < count; i++) {
    ASSERT_TRUE(until([] { return o2g_next_entry(nullptr) != nullptr; })) << i;
    queue_entry *const entry = o2g_next_entry(nullptr);
    ASSERT_TRUE(until([&] { return (o2g_entry_flags(entry) & O2G_RECEIVED) != 0; }));
    ASSERT_EQ(entry->tag, i);
    ASSERT_TRUE(text_of(*entry) == std::string(1000, char('a' + i % 26)));
    ASSERT_EQ(o2g_free_entry(entry), TND_OK);
  }
  sender.join();
  EXPECT_EQ(statistics().blocked_count, 0u);
}

TEST(seed_sockets, an_entry_takes_what_does_not_fit) {
  paper_process process{2, 4096};
  std::string const large(3'000'000, 'L');
  std::thread sender{[&] {
    write_all(process.peers[1], message_of(1, 1, large) + message_of(1, 2, "behind"));
  }};
  ASSERT_TRUE(until([] { return statistics().blocked_count == 1; }));
  receive first{O2G_ANY_SOURCE, 1, large.size()}, second{1, 2, 10};
  queue_entry *found = nullptr;
  EXPECT_EQ(o2g_find_entry(&second.entry, &found), -ENOENT);
  ASSERT_EQ(o2g_put_entry(&second.entry), TND_OK);
  ASSERT_EQ(o2g_put_entry(&first.entry), TND_OK);
  EXPECT_TRUE(until([&] { return first.is_done() && second.is_done(); }));
  sender.join();
  EXPECT_TRUE(first.text() == large);
  EXPECT_EQ(second.text(), "behind");
}

TEST(seed_sockets, without_a_dump_area_nothing_unexpected_is_taken) {
  std::vector<char> area(4096);
  paper_process process{1, 0};
  write_all(process.peers[0], message_of(0, 1, "a") + message_of(0, 2, "b") + message_of(0, 1, ""));
  ASSERT_TRUE(until([] { return statistics().blocked_count == 1; }));
  process.end_peer(0);  // messages before the end still arrive
  receive_all();
  EXPECT_EQ(o2g_rank_status(0), TND_OK);
  receive one{0, 1, 10};
  ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
  EXPECT_EQ(one.text(), "a");
  EXPECT_EQ(statistics().blocked_count, 1u);
  ASSERT_EQ(o2g_set_dump_area(area.data(), area.size()), TND_OK);
  ASSERT_TRUE(until([] { return o2g_rank_status(0) == -TND_EPEER; }));
  EXPECT_EQ(statistics().unexpected_count, 2u);
}

TEST(seed_sockets, a_connection_that_breaks_in_a_message) {
  paper_process process{3};
  receive body{0, 1, 100}, never{0, 2, 100}, any{O2G_ANY_SOURCE, 7, 100};
  for (receive *one : {&body, &never, &any})
    ASSERT_EQ(o2g_put_entry(&one->entry), TND_OK);
  std::string const whole = message_of(0, 1, "all of this");
  write_all(process.peers[0], whole.substr(0, whole.size() - 4));
  std::string const unseen = message_of(1, 3, "nobody waits");
  write_all(process.peers[1], unseen.substr(0, unseen.size() - 1));
  receive_all();
  process.end_peer(0);
  process.end_peer(1);
  ASSERT_TRUE(
      until([&] { return body.is_done() && never.is_done() && o2g_rank_status(1) == -TND_EPEER; }));
  EXPECT_EQ(body.flags(), uint32_t(O2G_MATCHED | O2G_FAILED));
  EXPECT_EQ(body.entry.status, -TND_EPEER);
  EXPECT_EQ(body.text(), "all of ");
  EXPECT_EQ(never.flags(), uint32_t(O2G_FAILED));
  EXPECT_EQ(any.flags(), uint32_t(O2G_QUEUED));  // another peer may send it
  EXPECT_EQ(o2g_rank_status(0), -TND_EPEER);
  EXPECT_EQ(o2g_put_entry(&body.entry), -TND_EPEER);
  queue_entry *const part = o2g_next_entry(nullptr);
  ASSERT_NE(part, nullptr);
  EXPECT_NE(o2g_entry_flags(part) & O2G_FAILED, 0u);
  EXPECT_EQ(o2g_free_entry(part), TND_OK);
  EXPECT_TRUE(until([] { return statistics().socket_count == 1; }));
}

TEST(seed_sockets, what_is_no_message_ends_its_connection_alone) {
  o2g_header const sound = header_of(0, 1, 4);
  std::vector<o2g_header> bad(6, sound);
  bad[0].magic++;
  bad[1].source = 1;
  bad[2].tag = -1;
  bad[3].size = O2G_MESSAGE_SIZE_MAX + 1;
  bad[4].size = ~uint64_t{0};
  bad[5].reserved = 1;
  for (o2g_header const &head : bad) {
    paper_process process{2};
    receive one{0, 1, 10}, other{1, 1, 10};
    ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
    ASSERT_EQ(o2g_put_entry(&other.entry), TND_OK);
    write_all(process.peers[0],
              std::string(reinterpret_cast<const char *>(&head), sizeof head) + "text");
    ASSERT_TRUE(until([&] { return one.is_done(); }));
    EXPECT_EQ(one.entry.status, -EPROTO);
    EXPECT_EQ(o2g_rank_status(0), -EPROTO);
    write_all(process.peers[1], message_of(1, 1, "fine"));
    ASSERT_TRUE(until([&] { return other.is_done(); }));
    EXPECT_EQ(other.text(), "fine");
  }
}

// The largest valid size: no process has the memory, and none is allocated.
TEST(seed_sockets, a_message_of_a_tebibyte) {
  paper_process process{1};
  o2g_header const head = header_of(0, 1, O2G_MESSAGE_SIZE_MAX);
  write_all(process.peers[0], std::string(reinterpret_cast<const char *>(&head), sizeof head));
  ASSERT_TRUE(until([] { return statistics().blocked_count == 1; }));
  receive one{0, 1, 8};
  ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
  write_all(process.peers[0], std::string(1000, 'x'));
  receive_all();
  EXPECT_EQ(one.flags(), uint32_t(O2G_MATCHED));
  process.end_peer(0);
  ASSERT_TRUE(until([&] { return one.is_done(); }));
  EXPECT_EQ(one.entry.status, -TND_EPEER);
}

TEST(seed_sockets, tcp_one_byte_at_a_time) {
  test::loopback_listener listener;
  auto const [peer, ours] = listener.connected();
  ASSERT_EQ(o2g_init(1), TND_OK);
  ASSERT_EQ(o2g_register_socket(ours, 4), TND_OK);
  receive one{4, 2, 100};
  ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
  for (char const byte : message_of(4, 2, "bytes")) {
    ASSERT_EQ(::send(peer, &byte, 1, 0), 1);
    uint64_t seen = 0;
    (void)!o2g_poll_for(&seen, 1'000'000);
  }
  EXPECT_TRUE(until([&] { return one.is_done(); }));
  EXPECT_EQ(one.text(), "bytes");
  // A reset, not an end.
  receive cut{4, 3, 100};
  ASSERT_EQ(o2g_put_entry(&cut.entry), TND_OK);
  write_all(peer, message_of(4, 3, "more").substr(0, 34));
  ASSERT_TRUE(until([&] { return (cut.flags() & O2G_MATCHED) != 0; }));
  linger const now{1, 0};
  ASSERT_EQ(setsockopt(peer, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
  ::close(peer);
  EXPECT_TRUE(until([&] { return cut.is_done(); }));
  EXPECT_EQ(cut.entry.status, -TND_EPEER);
  EXPECT_EQ(o2g_fini(), TND_OK);
  ::close(ours);
}

TEST(seed_sockets, a_thousand) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  rlim_t const wanted = 3200;
  if (limit.rlim_max < wanted)
    GTEST_SKIP() << "this process may open " << limit.rlim_max << " files";
  limit.rlim_cur = std::max(limit.rlim_cur, wanted);
  setrlimit(RLIMIT_NOFILE, &limit);
  constexpr int count = 1000;
  paper_process process{count, 4 << 20, 1};
  std::deque<receive> all;
  for (int rank = 0; rank < count; rank++)
    if (rank % 2 == 0)
      all.emplace_back(rank, 1, size_t{20});
  for (receive &one : all)
    ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
  for (int rank = count - 1; rank >= 0; rank--)
    write_all(process.peers[size_t(rank)], message_of(rank, 1, "from " + std::to_string(rank)));
  ASSERT_TRUE(until([] { return statistics().received_count == count; }));
  for (receive &one : all)
    EXPECT_EQ(one.text(), "from " + std::to_string(one.entry.source));
  for (int rank = 1; rank < count; rank += 2) {
    receive one{rank, O2G_ANY_TAG, 0};
    queue_entry *found = nullptr;
    ASSERT_EQ(o2g_find_entry(&one.entry, &found), TND_OK);
    EXPECT_EQ(text_of(*found), "from " + std::to_string(rank));
  }
}

}  // namespace
}  // namespace tanada::o2g::calls
