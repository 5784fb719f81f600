// Which sockets and which memory the driver accepts, and how the library chooses it. Where
// TND_O2G_DRIVER=required is not set, only the tests that hold without a driver run.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <deque>
#include <thread>

#include "paper_process.hpp"

namespace tanada::o2g::calls {
namespace {

// While it lives, TND_O2G_DRIVER has another value.
class other_setting {
 public:
  explicit other_setting(const char *value) {
    const char *const previous = std::getenv("TND_O2G_DRIVER");
    had_value_ = previous != nullptr;
    previous_ = had_value_ ? previous : "";
    setenv("TND_O2G_DRIVER", value, 1);
  }
  ~other_setting() {
    if (had_value_)
      setenv("TND_O2G_DRIVER", previous_.c_str(), 1);
    else
      unsetenv("TND_O2G_DRIVER");
  }
  other_setting(const other_setting &) = delete;
  other_setting &operator=(const other_setting &) = delete;

 private:
  bool had_value_;
  std::string previous_;
};

std::pair<int, int> unix_pair() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  return {ends[0], ends[1]};
}

TEST(seed_choice, a_value_that_does_not_exist_is_refused) {
  other_setting const setting{"always"};
  EXPECT_EQ(o2g_init(1), -EINVAL);
  EXPECT_NE(std::string{tnd_last_message()}.find("auto, off, required"), std::string::npos)
      << tnd_last_message();
}

TEST(seed_choice, a_required_driver_that_is_missing) {
  if (access("/dev/o2g", F_OK) == 0)
    GTEST_SKIP() << "this machine has the driver";
  other_setting const setting{"required"};
  EXPECT_EQ(o2g_init(1), -ENODEV);
  EXPECT_NE(std::string{tnd_last_message()}.find("/dev/o2g"), std::string::npos)
      << tnd_last_message();
  EXPECT_EQ(o2g_poll(), -TND_ESTATE);
}

TEST(seed_choice, a_unix_socket) {
  ASSERT_EQ(o2g_init(2), TND_OK);
  auto const [peer, ours] = unix_pair();
  if (is_driver_required()) {
    EXPECT_EQ(o2g_register_socket(ours, 0), -EOPNOTSUPP);
    EXPECT_NE(std::string{tnd_last_message()}.find("TND_O2G_DRIVER=off"), std::string::npos)
        << tnd_last_message();
    EXPECT_EQ(o2g_rank_status(0), -ENOENT);
    auto const [tcp_peer, tcp_ours] = tcp_pair();
    EXPECT_EQ(o2g_register_socket(tcp_ours, 0), TND_OK);
    ::close(tcp_peer);
    ::close(tcp_ours);
  } else {
    EXPECT_EQ(o2g_register_socket(ours, 0), TND_OK);
    receive one{0, 1, 10};
    ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
    write_all(peer, message_of(0, 1, "text"));
    EXPECT_TRUE(until([&] { return one.is_done(); }));
  }
  EXPECT_EQ(o2g_fini(), TND_OK);
  ::close(peer);
  ::close(ours);
}

// With TND_O2G_DRIVER=auto the first socket decides. Everything that was done before it stays.
TEST(seed_choice, a_unix_socket_comes_first) {
  other_setting const setting{"auto"};
  std::vector<char> area(1 << 20);
  auto const [peer, ours] = unix_pair();
  auto const [tcp_peer, tcp_ours] = tcp_pair();
  ASSERT_EQ(o2g_init(2), TND_OK);
  std::deque<receive> entries;
  for (int i = 0; i < 2000; i++) {
    entries.emplace_back(O2G_ANY_SOURCE, i % 2 == 0 ? 1 : O2G_ANY_TAG, size_t{10});
    ASSERT_EQ(o2g_put_entry(&entries.back().entry), TND_OK);
  }
  ASSERT_EQ(o2g_cancel_entry(&entries[3].entry), TND_OK);
  ASSERT_EQ(o2g_set_dump_area(area.data(), area.size()), TND_OK);
  ASSERT_EQ(o2g_start_dumper_thread(2), TND_OK);
  ASSERT_EQ(o2g_register_socket(ours, 0), TND_OK);
  EXPECT_EQ(o2g_set_dump_area(area.data(), area.size()), -EBUSY);
  EXPECT_EQ(statistics().thread_count, 2u);
  EXPECT_EQ(statistics().expected_count, 1999u);
  ASSERT_EQ(o2g_register_socket(tcp_ours, 1), TND_OK);
  EXPECT_EQ(entries[0].flags(), uint32_t(O2G_QUEUED));
  EXPECT_EQ(entries[3].flags(), 0u);
  std::string bytes;
  for (int i = 0; i < 2000; i++)
    bytes += message_of(0, 1, std::to_string(i));
  write_all(peer, bytes);
  ASSERT_TRUE(until_received(2000));
  for (int i = 0, number = 0; i < 2000; i++) {
    if (i != 3) {
      ASSERT_EQ(entries[size_t(i)].text(), std::to_string(number++));
    }
  }
  EXPECT_EQ(statistics().unexpected_count, 1u);
  EXPECT_EQ(o2g_fini(), TND_OK);
  for (int const descriptor : {peer, ours, tcp_peer, tcp_ours})
    ::close(descriptor);
}

// The calls of the other test run at once with the first registration.
TEST(seed_choice, calls_while_the_first_socket_decides) {
  other_setting const setting{"auto"};
  for (int round = 0; round < 20; round++) {
    auto const [peer, ours] = round % 2 == 0 ? unix_pair() : tcp_pair();
    ASSERT_EQ(o2g_init(1), TND_OK);
    std::atomic<bool> is_over = false;
    std::thread caller{[&] {
      receive one{O2G_ANY_SOURCE, 2, 10};
      while (!is_over) {
        EXPECT_EQ(o2g_put_entry(&one.entry), TND_OK);
        EXPECT_EQ(one.flags(), uint32_t(O2G_QUEUED));
        EXPECT_EQ(o2g_cancel_entry(&one.entry), TND_OK);
        EXPECT_EQ(one.flags(), 0u);
      }
    }};
    receive one{0, 1, 10};
    EXPECT_EQ(o2g_put_entry(&one.entry), TND_OK);
    EXPECT_EQ(o2g_register_socket(ours, 0), TND_OK);
    write_all(peer, message_of(0, 1, "text"));
    EXPECT_TRUE(until([&] { return one.is_done(); }));
    is_over = true;
    caller.join();
    EXPECT_EQ(o2g_fini(), TND_OK);
    ::close(peer);
    ::close(ours);
  }
}

class seed_driver : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_driver_required())
      GTEST_SKIP() << "TND_O2G_DRIVER=required is not set";
  }
};

TEST_F(seed_driver, a_socket_has_one_reader) {
  ASSERT_EQ(o2g_init(2), TND_OK);
  auto const [peer, ours] = tcp_pair();
  ASSERT_EQ(o2g_register_socket(ours, 0), TND_OK);
  EXPECT_EQ(o2g_register_socket(ours, 1), -EBUSY);
  EXPECT_EQ(o2g_rank_status(1), -ENOENT);
  EXPECT_EQ(o2g_fini(), TND_OK);
  ::close(peer);
  ::close(ours);
}

TEST_F(seed_driver, a_socket_of_a_tcp_server_that_is_no_stream_of_messages) {
  ASSERT_EQ(o2g_init(2), TND_OK);
  test::loopback_listener const listener;
  EXPECT_EQ(o2g_register_socket(listener.descriptor(), 0), -EINVAL);
  EXPECT_EQ(o2g_register_socket(open("/dev/null", O_RDONLY | O_CLOEXEC), 0), -EINVAL);
  EXPECT_EQ(o2g_fini(), TND_OK);
}

// Buffers that the driver cannot pin are written in the context of the process.
TEST_F(seed_driver, a_buffer_in_a_file) {
  constexpr size_t size = 300'000;
  for (int const thread_count : {0, 1}) {
    paper_process process{1, 1 << 20, thread_count};
    FILE *const file = tmpfile();
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(ftruncate(fileno(file), size), 0);
    void *const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    ASSERT_NE(memory, MAP_FAILED);
    queue_entry entry = O2G_ENTRY_INIT;
    entry.data = memory;
    entry.size = size;
    ASSERT_EQ(o2g_put_entry(&entry), TND_OK);
    std::string const text(size, 'f');
    std::thread sender{[&] {
      write_all(process.peers[0], message_of(0, 1, text));
    }};
    EXPECT_TRUE(until([&] { return (o2g_entry_flags(&entry) & O2G_RECEIVED) != 0; }));
    sender.join();
    EXPECT_TRUE((std::string{static_cast<char *>(memory), size} == text));
    munmap(memory, size);
    fclose(file);
  }
}

// Memory that cannot be written fails the entry and its connection, and no other.
TEST_F(seed_driver, a_buffer_that_cannot_be_written) {
  constexpr size_t size = 64 << 10;
  for (int const thread_count : {0, 1}) {
    paper_process process{2, 1 << 20, thread_count};
    void *const memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    queue_entry entry = O2G_ENTRY_INIT;
    entry.source = 0;
    entry.data = memory;
    entry.size = size;
    receive other{1, 1, 10};
    ASSERT_EQ(o2g_put_entry(&entry), TND_OK);
    ASSERT_EQ(o2g_put_entry(&other.entry), TND_OK);
    write_all(process.peers[0], message_of(0, 1, std::string(size, 'x')));
    write_all(process.peers[1], message_of(1, 1, "text"));
    EXPECT_TRUE(until([&] { return (o2g_entry_flags(&entry) & O2G_FAILED) != 0; }));
    EXPECT_NE(entry.status, TND_OK);
    EXPECT_NE(o2g_rank_status(0), TND_OK);
    EXPECT_TRUE(until([&] { return other.is_done(); }));
    EXPECT_EQ(other.text(), "text");
    munmap(memory, size);
  }
}

// A buffer that is unmapped while its entry is in the queue: the message goes nowhere, or fails.
TEST_F(seed_driver, a_buffer_that_is_unmapped) {
  constexpr size_t size = 1 << 20;
  paper_process process{2, 1 << 20, 1};
  void *const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  queue_entry entry = O2G_ENTRY_INIT;
  entry.source = 0;
  entry.data = memory;
  entry.size = size;
  receive other{1, 1, 10};
  ASSERT_EQ(o2g_put_entry(&entry), TND_OK);
  ASSERT_EQ(o2g_put_entry(&other.entry), TND_OK);
  munmap(memory, size);
  write_all(process.peers[0], message_of(0, 1, std::string(size, 'x')));
  write_all(process.peers[1], message_of(1, 1, "text"));
  EXPECT_TRUE(until([&] { return (o2g_entry_flags(&entry) & (O2G_RECEIVED | O2G_FAILED)) != 0; }));
  EXPECT_TRUE(until([&] { return other.is_done(); }));
}

// fork() gives the child a copy of pinned memory: both processes write to their own.
TEST_F(seed_driver, a_child_does_not_take_the_pages_of_a_buffer) {
  paper_process process{1};
  receive one{0, 1, 200'000};
  ASSERT_EQ(o2g_put_entry(&one.entry), TND_OK);
  pid_t const child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::fill(one.buffer.begin(), one.buffer.end(), 'c');
    pause();
    _exit(0);
  }
  std::fill(one.buffer.begin(), one.buffer.end(), 'p');  // copies pages that both would share
  std::string const text(200'000, 't');
  std::thread sender{[&] {
    write_all(process.peers[0], message_of(0, 1, text));
  }};
  EXPECT_TRUE(until([&] { return one.is_done(); }));
  sender.join();
  EXPECT_TRUE(one.text() == text);
  kill(child, SIGKILL);
  int outcome = 0;
  EXPECT_EQ(waitpid(child, &outcome, 0), child);
}

// A process that is killed leaves its sockets as if it had no driver: the peer sees the end.
TEST_F(seed_driver, a_process_that_is_killed) {
  auto const [peer, ours] = tcp_pair();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  pid_t const child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(peer);
    std::vector<char> area(1 << 20);
    receive one{0, 1, 1 << 20};
    bool const is_good =
        o2g_init(1) == TND_OK && o2g_set_dump_area(area.data(), area.size()) == TND_OK &&
        o2g_register_socket(ours, 0) == TND_OK && o2g_start_dumper_thread(2) == TND_OK &&
        o2g_put_entry(&one.entry) == TND_OK;
    (void)!write(ends[1], is_good ? "y" : "n", 1);
    (void)!o2g_poll();
    pause();
  }
  ::close(ours);
  char answer = 'n';
  ASSERT_EQ(read(ends[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  write_all(peer, message_of(0, 1, std::string(1 << 20, 'x')).substr(0, 500'000));
  kill(child, SIGKILL);
  int outcome = 0;
  EXPECT_EQ(waitpid(child, &outcome, 0), child);
  char byte;
  EXPECT_LE(recv(peer, &byte, 1, 0), 0);
  ::close(peer);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace tanada::o2g::calls
