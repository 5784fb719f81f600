// tanada/o2g.h from o2g_init() to o2g_fini(): sockets that hold data before and after, entries that
// are in flight at the end, fork() and signals.
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "paper_process.hpp"

namespace tanada::o2g::calls {
namespace {

TEST(seed_lifetime, data_that_arrived_before_the_registration) {
  ASSERT_EQ(o2g_init(1), TND_OK);
  std::vector<char> area(1 << 20);
  ASSERT_EQ(o2g_set_dump_area(area.data(), area.size()), TND_OK);
  auto const [peer, ours] = tcp_pair();
  receive one{0, 1, 10};
  ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
  write_all(peer,
            message_of(0, 2, "unexpected") + message_of(0, 1, "expected") +
                message_of(0, 3, "cut off").substr(0, 35));
  int size = 0;
  while (ioctl(ours, FIONREAD, &size) == 0 && size == 0)
    std::this_thread::yield();
  ASSERT_EQ(o2g_register_socket(ours, 0), TND_OK);
  ASSERT_TRUE(until_received(2));
  EXPECT_EQ(one.text(), "expected");
  ASSERT_NE(o2g_next_entry(nullptr), nullptr);
  EXPECT_EQ(text_of(*o2g_next_entry(nullptr)), "unexpected");
  ::close(peer);
  EXPECT_TRUE(until([] { return o2g_rank_status(0) == -TND_EPEER; }));
  EXPECT_EQ(o2g_fini(), TND_OK);
  ::close(ours);
}

// A peer that sends everything and closes before the registration.
TEST(seed_lifetime, a_connection_that_ended_before_the_registration) {
  ASSERT_EQ(o2g_init(1), TND_OK);
  auto const [peer, ours] = tcp_pair();
  receive one{0, 1, 10}, never{0, 1, 10};
  write_all(peer, message_of(0, 1, "last words"));
  shutdown(peer, SHUT_WR);
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
  ASSERT_EQ(o2g_put_entry(&never.entry), TND_OK);
  ASSERT_EQ(o2g_register_socket(ours, 0), TND_OK);
  EXPECT_TRUE(until([&] { return one.is_done() && never.is_done(); }));
  EXPECT_EQ(one.text(), "last words");
  EXPECT_EQ(never.flags(), uint32_t(O2G_FAILED));
  EXPECT_EQ(o2g_rank_status(0), -TND_EPEER);
  write_all(ours, "the other direction is open");
  EXPECT_EQ(o2g_fini(), TND_OK);
  ::close(ours);
  ::close(peer);
}

TEST(seed_lifetime, the_sockets_belong_to_the_program_again) {
  auto const [peer, ours] = tcp_pair();
  for (int round = 0; round < 3; round++) {
    ASSERT_EQ(o2g_init(1), TND_OK);
    ASSERT_EQ(o2g_register_socket(ours, round), TND_OK);
    receive one{O2G_ANY_SOURCE, 1, 10};
    ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
    write_all(peer, message_of(round, 1, "o2g"));
    ASSERT_TRUE(until([&] { return one.is_done(); }));
    ASSERT_EQ(o2g_fini(), TND_OK);
    write_all(peer, "bytes");
    char bytes[5];
    ASSERT_EQ(recv(ours, bytes, sizeof bytes, MSG_WAITALL), ssize_t{sizeof bytes});
    EXPECT_EQ((std::string{bytes, sizeof bytes}), "bytes");
  }
  ::close(ours);
  ::close(peer);
}

TEST(seed_lifetime, entries_that_are_in_flight_at_the_end) {
  receive queued{0, 1, 10}, received{0, 2, 10}, matched{0, 3, 10};
  {
    paper_process process{1};
    for (receive *one : {&queued, &received, &matched})
      ASSERT_EQ(o2g_put_entry(&one->entry), TND_OK);
    write_all(process.peers[0], message_of(0, 2, "whole"));
    ASSERT_TRUE(until_received(1));  // the program has not read the flags
    write_all(process.peers[0], message_of(0, 3, "in part").substr(0, 34));
    ASSERT_TRUE(until([&] { return (matched.flags() & O2G_MATCHED) != 0; }));
  }
  EXPECT_EQ(queued.flags(), 0u);
  EXPECT_EQ(received.flags(), uint32_t(O2G_MATCHED | O2G_RECEIVED));
  EXPECT_EQ(received.text(), "whole");
  EXPECT_EQ(matched.flags(), uint32_t(O2G_MATCHED));
  paper_process process{1};
  EXPECT_EQ(matched.flags(), uint32_t(O2G_MATCHED));
  EXPECT_EQ(o2g_cancel_entry(&queued.entry), -EINVAL);
  ASSERT_EQ(o2g_put_entry(&queued.entry), TND_OK);
  write_all(process.peers[0], message_of(0, 1, "again"));
  ASSERT_TRUE(until([&] { return queued.is_done(); }));
  EXPECT_EQ(queued.text(), "again");
}

// The peer sends without end while the library is shut down: no byte reaches a buffer later.
TEST(seed_lifetime, buffers_are_not_written_after_the_end) {
  for (int const thread_count : {0, 2}) {
    std::vector<char> buffer(8 << 20, '#');
    queue_entry entry = O2G_ENTRY_INIT;
    entry.source = 0;
    entry.data = buffer.data();
    entry.size = buffer.size();
    auto process = std::make_unique<paper_process>(1, size_t{1} << 20, thread_count);
    int const peer = dup(process->peers[0]);
    ASSERT_EQ(o2g_put_entry(&entry), TND_OK);
    std::thread sender{[peer] {
      o2g_header const head = header_of(0, 1, uint64_t{1} << 40);
      std::string const part(100'000, 'x');
      write_all(peer, {reinterpret_cast<const char *>(&head), sizeof head});
      while (::send(peer, part.data(), part.size(), MSG_NOSIGNAL) > 0)
        continue;
    }};
    ASSERT_TRUE(until([&] { return (o2g_entry_flags(&entry) & O2G_MATCHED) != 0; }));
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
    process.reset();
    std::vector<char> const copy = buffer;
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    EXPECT_TRUE(copy == buffer);
    shutdown(peer, SHUT_RDWR);
    sender.join();
    ::close(peer);
  }
}

std::set<int> open_descriptors() {
  std::set<int> open;
  for (auto const &entry : std::filesystem::directory_iterator{"/proc/self/fd"})
    open.insert(std::stoi(entry.path().filename()));
  return open;
}

TEST(seed_lifetime, programs_that_are_executed_inherit_nothing) {
  auto const [peer, ours] = tcp_pair();
  auto const before = open_descriptors();
  ASSERT_EQ(o2g_init(1), TND_OK);
  ASSERT_EQ(o2g_register_socket(ours, 0), TND_OK);
  ASSERT_EQ(o2g_start_dumper_thread(1), TND_OK);
  for (int const descriptor : open_descriptors()) {
    int const flags = fcntl(descriptor, F_GETFD);
    EXPECT_TRUE(before.contains(descriptor) || flags < 0 || (flags & FD_CLOEXEC) != 0)
        << descriptor;
  }
  EXPECT_EQ(o2g_fini(), TND_OK);
  EXPECT_EQ(open_descriptors(), before);
  ::close(peer);
  ::close(ours);
}

// A child that only exists: the parent receives, and gets its sockets and buffers back.
TEST(seed_lifetime, a_child_does_not_disturb_its_parent) {
  auto process = std::make_unique<paper_process>(2, size_t{1} << 20, 1);
  std::vector<int> const peers{dup(process->peers[0]), dup(process->peers[1])};
  std::deque<receive> entries;
  for (int rank = 0; rank < 2; rank++) {
    entries.emplace_back(rank, 1, size_t{500'000});
    ASSERT_EQ(o2g_put_entry(&entries.back().entry), TND_OK);
  }
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  pid_t const child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(ends[1]);
    char byte;
    (void)!read(ends[0], &byte, 1);  // until the parent closes the pipe
    _exit(0);
  }
  for (int rank = 0; rank < 2; rank++) {
    std::string const text(500'000, char('a' + rank));
    write_all(peers[size_t(rank)], message_of(rank, 1, text));
    ASSERT_TRUE(until([&] { return entries[size_t(rank)].is_done(); }));
    EXPECT_TRUE(entries[size_t(rank)].text() == text);
  }
  receive late{0, 2, 100};
  ASSERT_EQ(o2g_put_entry(&late.entry), TND_OK);
  process.reset();
  write_all(peers[0], message_of(0, 2, "after the end"));
  std::this_thread::sleep_for(std::chrono::milliseconds{5});
  EXPECT_EQ(late.buffer[0], '\0');
  EXPECT_EQ(late.flags(), 0u);
  ::close(ends[0]);
  ::close(ends[1]);
  int outcome = -1;
  EXPECT_EQ(waitpid(child, &outcome, 0), child);
  EXPECT_EQ(outcome, 0);
  for (int const peer : peers)
    ::close(peer);
}

// In User-Mode Linux, the memory of a child shows mappings that fork() does not copy. A new mapping
// at such an address has the content of the old one.
bool is_user_mode_linux() {
  std::ifstream file{"/proc/cpuinfo"};
  std::string const text{std::istreambuf_iterator<char>{file}, {}};
  return text.find("User Mode Linux") != std::string::npos;
}

// The child has no state, and can create its own.
TEST(seed_lifetime, a_child_begins_anew) {
  if (is_driver_required() && is_user_mode_linux())
    GTEST_SKIP() << "this kernel does not separate the mappings of a child";
  paper_process process{1};
  receive queued{0, 1, 10};
  ASSERT_EQ(o2g_put_entry(&queued.entry), TND_OK);
  pid_t const child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    queue_entry entry = O2G_ENTRY_INIT;
    uint64_t seen = 0;
    bool const is_refused =
        o2g_put_entry(&entry) == -TND_ESTATE && o2g_cancel_entry(&queued.entry) == -TND_ESTATE &&
        o2g_poll_for(&seen, second_ns) == -TND_ESTATE && o2g_rank_status(0) == -TND_ESTATE &&
        o2g_entry_flags(&queued.entry) == O2G_QUEUED && o2g_fini() == -TND_ESTATE;
    auto const [peer, ours] = tcp_pair();
    receive own{5, 1, 10};
    bool is_received = o2g_init(1) == TND_OK && o2g_put_entry(&own.entry) == TND_OK &&
                       o2g_register_socket(ours, 5) == TND_OK;
    if (is_received) {
      write_all(peer, message_of(5, 1, "own"));
      is_received =
          until([&] { return own.is_done(); }) && own.text() == "own" && o2g_fini() == TND_OK;
    }
    _exit((is_refused ? 0 : 1) + (is_received ? 0 : 2));
  }
  int outcome = -1;
  EXPECT_EQ(waitpid(child, &outcome, 0), child);
  EXPECT_EQ(outcome, 0);
  write_all(process.peers[0], message_of(0, 1, "text"));
  EXPECT_TRUE(until([&] { return queued.is_done(); }));
}

std::atomic<int> signal_count = 0;

// Signals go to the program's threads, and interrupt no wait of the library.
TEST(seed_lifetime, signals_do_not_end_a_wait) {
  struct sigaction action{}, previous{};
  action.sa_handler = [](int) {
    signal_count++;
  };
  ASSERT_EQ(sigaction(SIGUSR1, &action, &previous), 0);
  for (int const thread_count : {0, 1}) {
    paper_process process{1, 1 << 20, thread_count};
    signal_count = 0;
    receive one{0, 1, 10};
    ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
    pthread_t const waiting = pthread_self();
    std::thread sender{[&] {
      for (int i = 0; i < 20; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
        pthread_kill(waiting, SIGUSR1);
      }
      write_all(process.peers[0], message_of(0, 1, "text"));
    }};
    uint64_t seen = 0;
    EXPECT_EQ(o2g_poll_for(&seen, 10 * second_ns), TND_OK);
    EXPECT_TRUE(one.is_done());
    sender.join();
    EXPECT_GT(signal_count, 0);
  }
  ASSERT_EQ(sigaction(SIGUSR1, &previous, nullptr), 0);
}

// Each message wakes one of the threads in o2g_poll(); the end wakes all.
TEST(seed_lifetime, threads_share_the_messages_of_a_poll) {
  constexpr int thread_count = 3;
  paper_process process{1, 1 << 20, 1};
  std::atomic<int> return_count = 0;
  std::vector<std::thread> pollers;
  for (int i = 0; i < thread_count; i++)
    pollers.emplace_back([&] {
      while (o2g_poll() == TND_OK)
        return_count++;
    });
  for (int i = 0; i < 50; i++) {
    write_all(process.peers[0], message_of(0, 1, "text"));
    ASSERT_TRUE(until_received(uint64_t(i) + 1));
    for (int k = 0; k < 10'000 && return_count <= i; k++)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    ASSERT_EQ(return_count, i + 1);
  }
  process.end_peer(0);
  for (std::thread &each : pollers)
    each.join();
  EXPECT_EQ(return_count, 51);
}

TEST(seed_lifetime, many_connections_end_at_once) {
  constexpr int rank_count = 20;
  paper_process process{rank_count, 1 << 20, 1};
  std::deque<receive> entries;
  for (int rank = 0; rank < rank_count; rank++) {
    entries.emplace_back(rank, 1, size_t{100});
    ASSERT_EQ(o2g_put_entry(&entries.back().entry), TND_OK);
    write_all(process.peers[size_t(rank)],
              message_of(rank, 1, "half of it").substr(0, rank % 2 == 0 ? 38 : 20));
  }
  std::vector<std::thread> ends;
  for (int rank = 0; rank < rank_count; rank++)
    ends.emplace_back([&process, rank] {
      if (rank % 3 == 0) {
        linger const now{1, 0};  // a reset
        setsockopt(process.peers[size_t(rank)], SOL_SOCKET, SO_LINGER, &now, sizeof now);
      }
      process.end_peer(rank);
    });
  for (std::thread &each : ends)
    each.join();
  for (receive &one : entries) {
    EXPECT_TRUE(until([&] { return one.is_done(); }));
    EXPECT_EQ(one.entry.status, -TND_EPEER);
  }
  EXPECT_TRUE(until([] { return statistics().socket_count == 0; }));
  uint64_t seen = 0;
  EXPECT_EQ(o2g_poll_for(&seen, second_ns), TND_OK);
  EXPECT_EQ(o2g_poll_for(&seen, second_ns), -TND_EPEER);
}

}  // namespace
}  // namespace tanada::o2g::calls
