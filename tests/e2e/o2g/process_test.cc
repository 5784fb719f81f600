// Endpoints in processes of their own: one is killed, one is stopped.

#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "e2e/o2g/raw_peer_fixture.hpp"

namespace tanada::test {
namespace {

constexpr size_t message_size = 32 << 20;
constexpr uint64_t lost_after_ns = 1'000'000'000;

using test_endpoint = raw_peer_test::endpoint;

std::unique_ptr<test_endpoint> make_endpoint() {
  return std::make_unique<test_endpoint>(
      o2g::engine_options{}, seams::stream_set_options{.peer_timeout_ns = lost_after_ns});
}

o2g::peer_index peer_of(test_endpoint &at, const seams::socket_address &address) {
  return result<o2g::peer_index>{at.speaker->register_peer(address)}.value();
}

status send(test_endpoint &from, o2g::peer_index to, std::string &bytes, uint64_t tag) {
  iovec const part{bytes.data(), bytes.size()};
  return from.speaker->post_send({.target = to, .parts = {&part, 1}, .tag = tag, .tagged = true});
}
status receive(test_endpoint &at, o2g::peer_index from, std::string &bytes, uint64_t tag) {
  iovec const part{bytes.data(), bytes.size()};
  return at.speaker->post_receive({.parts = {&part, 1}, .pattern = {tag, 0, from}, .tagged = true});
}

// A process with an endpoint, forked before this process has a thread. It reports its address and
// receives its peer's.
class other_process {
 public:
  template <class Function>
  explicit other_process(Function work) {
    EXPECT_EQ(pipe(up_), 0);
    EXPECT_EQ(pipe(down_), 0);
    id_ = fork();
    if (id_ != 0) {
      EXPECT_EQ(read(up_[0], &address, sizeof address), ssize_t(sizeof address));
      return;
    }
    auto mine = make_endpoint();
    seams::socket_address const at = mine->address();
    seams::socket_address peer{};
    if (write(up_[1], &at, sizeof at) == ssize_t(sizeof at) &&
        read(down_[0], &peer, sizeof peer) == ssize_t(sizeof peer))
      work(*mine, peer_of(*mine, peer));
    _exit(0);
  }
  ~other_process() {
    signal(SIGKILL);
    waitpid(id_, nullptr, 0);
    for (int const each : {up_[0], up_[1], down_[0], down_[1]})
      close(each);
  }
  void begin(const test_endpoint &peer) {
    seams::socket_address const at = peer.address();
    EXPECT_EQ(write(down_[1], &at, sizeof at), ssize_t(sizeof at));
  }
  void signal(int what) {
    kill(id_, what);
  }

  seams::socket_address address{};

 private:
  int up_[2] = {}, down_[2] = {};
  pid_t id_ = 0;
};

// Sends forever, and receives what arrives.
void talk(test_endpoint &mine, o2g::peer_index to) {
  std::string sent(message_size, 's'), came(message_size, ' ');
  size_t count = 0;
  for (;;) {
    if (send(mine, to, sent, 1) != status::ok || receive(mine, to, came, 2) != status::ok)
      return;
    count += 2;
    if (!raw_peer_test::soon([&] { return mine.done.count() >= count; }, 60'000'000'000))
      return;
  }
}

size_t count_of(const locked_completions &done, status code) {
  size_t count = 0;
  for (size_t i = 0; i < done.count(); i++)
    count += done.at(i).code == code;
  return count;
}

TEST(process, one_is_killed_amid_large_messages) {
  other_process victim{talk}, good{talk};
  auto mine = make_endpoint();
  auto const victim_index = peer_of(*mine, victim.address),
             good_index = peer_of(*mine, good.address);
  victim.begin(*mine);
  good.begin(*mine);
  std::vector<std::string> came(8, std::string(message_size, ' '));
  std::string sent(message_size, 's');
  for (int i = 0; i < 4; i++)
    ASSERT_EQ(receive(*mine, victim_index, came[size_t(i)], 1), status::ok);
  ASSERT_EQ(receive(*mine, good_index, came[4], 1), status::ok);
  ASSERT_TRUE(raw_peer_test::soon([&] { return mine->done.count() >= 1; }, 20'000'000'000));
  ASSERT_EQ(send(*mine, victim_index, sent, 3), status::ok);  // never received
  victim.signal(SIGKILL);
  // Three or four receives and, unless all of it was sent by then, the send.
  ASSERT_TRUE(raw_peer_test::soon([&] { return count_of(mine->done, status::peer_lost) >= 3; }));
  EXPECT_TRUE(raw_peer_test::soon([&] { return mine->done.count() >= 6; }));
  EXPECT_EQ(send(*mine, victim_index, sent, 3), status::peer_lost);
  size_t const ok_before = count_of(mine->done, status::ok);
  ASSERT_EQ(send(*mine, good_index, sent, 2), status::ok);
  ASSERT_EQ(receive(*mine, good_index, came[5], 1), status::ok);
  ASSERT_TRUE(raw_peer_test::soon([&] { return count_of(mine->done, status::ok) >= ok_before + 2; },
                                  20'000'000'000));
  EXPECT_EQ(came[5], sent);
}

// For several times the timeout of a silent peer.
TEST(process, one_is_stopped_and_goes_on) {
  other_process stopped{talk};
  auto mine = make_endpoint();
  auto const to = peer_of(*mine, stopped.address);
  stopped.begin(*mine);
  std::string came(message_size, ' '), sent(message_size, 's');
  ASSERT_EQ(receive(*mine, to, came, 1), status::ok);
  ASSERT_TRUE(raw_peer_test::soon([&] { return mine->done.count() == 1; }, 20'000'000'000));
  stopped.signal(SIGSTOP);
  for (int i = 0; i < 16; i++)
    ASSERT_EQ(send(*mine, to, sent, 2), status::ok);
  seams::monotonic_clock().sleep_ns(5 * lost_after_ns);
  EXPECT_EQ(count_of(mine->done, status::peer_lost), 0u);
  EXPECT_LT(mine->speaker->statistics().unexpected_size,
            o2g::engine_options{}.unexpected_size_hard);
  stopped.signal(SIGCONT);
  std::vector<std::string> more(16, std::string(message_size, ' '));
  for (auto &each : more)
    ASSERT_EQ(receive(*mine, to, each, 1), status::ok);
  EXPECT_TRUE(raw_peer_test::soon([&] { return mine->done.count() == 33; }, 60'000'000'000));
  EXPECT_EQ(count_of(mine->done, status::ok), 33u);
}

bool set_link(bool is_up) {
  int const any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = is_up ? IFF_UP : 0;
  bool const done = ioctl(any, SIOCSIFFLAGS, &request) == 0;
  close(any);
  return done;
}

constexpr int no_namespace = 77;

// 0: success; otherwise the number of the step that failed.
int cut_the_link() {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 || !set_link(true))
    return no_namespace;
  auto sender = make_endpoint(), receiver = make_endpoint();
  auto const to = peer_of(*sender, receiver->address()),
             from = peer_of(*receiver, sender->address());
  std::string sent(message_size, 's'), came(message_size, ' '), more(message_size, ' ');
  if (receive(*receiver, from, came, 1) != status::ok || send(*sender, to, sent, 1) != status::ok)
    return 1;
  if (!raw_peer_test::soon([&] { return receiver->done.count() == 1 && sender->done.count() == 1; },
                           20'000'000'000))
    return 2;
  if (receive(*receiver, from, more, 1) != status::ok || !set_link(false))
    return 3;
  if (send(*sender, to, sent, 1) != status::ok)
    return 4;
  auto &clock = seams::monotonic_clock();
  uint64_t const begin_ns = clock.now_ns();
  if (!raw_peer_test::soon([&] { return sender->done.count() == 2; }, 4 * lost_after_ns))
    return 5;
  if (sender->done.at(1).code != status::peer_lost)
    return 6;
  if (!raw_peer_test::soon([&] { return receiver->done.count() == 2; }, 4 * lost_after_ns))
    return 7;
  if (receiver->done.at(1).code != status::peer_lost)
    return 8;
  return clock.now_ns() - begin_ns < lost_after_ns / 2 ? 9 : 0;
}

// In a network of its own. One side has something to send, and the other only waits: keep-alive
// detects the failure.
TEST(process, a_link_is_cut) {
  pid_t const id = fork();
  if (id == 0)
    _exit(cut_the_link());
  int result = 0;
  ASSERT_EQ(waitpid(id, &result, 0), id);
  ASSERT_TRUE(WIFEXITED(result));
  if (WEXITSTATUS(result) == no_namespace)
    GTEST_SKIP() << "no network namespace may be made here";
  EXPECT_EQ(WEXITSTATUS(result), 0);
}

}  // namespace
}  // namespace tanada::test
