#include "seams/bootstrap/node_watch.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>

namespace tanada::port {
namespace {

// A child that waits to be killed.
pid_t child() {
  pid_t const made = fork();
  if (made == 0) {
    for (;;)
      pause();
  }
  return made;
}

void end(pid_t process, bool reap) {
  kill(process, SIGKILL);
  siginfo_t info;
  waitid(P_PID, id_t(process), &info, WEXITED | (reap ? 0 : WNOWAIT));
}

struct observed {
  std::atomic<int32_t> lost{-1}, asked{-1};
  node_watch_calls calls(bool has_left) {
    return {.has_left =
                [this, has_left](int32_t rank) {
                  asked = rank;
                  return has_left;
                },
            .lose =
                [this](int32_t rank) {
                  lost = rank;
                }};
  }
};

bool soon(const std::atomic<int32_t> &value, int32_t expected) {
  auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (value != expected && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  return value == expected;
}

TEST(node_watch, a_process_that_ends_is_lost_at_once) {
  pid_t const other = child(), third = child();
  observed seen;
  node_watch watch;
  watch.start({{.rank = 3, .process = other}, {.rank = 4, .process = third}}, seen.calls(false));
  EXPECT_EQ(seen.lost, -1);
  end(other, false);
  EXPECT_TRUE(soon(seen.lost, 3));
  end(third, true);
  waitpid(other, nullptr, 0);
  EXPECT_TRUE(soon(seen.lost, 4));
}

TEST(node_watch, one_that_has_left_is_not) {
  pid_t const other = child();
  observed seen;
  node_watch watch;
  watch.start({{.rank = 3, .process = other}}, seen.calls(true));
  end(other, true);
  EXPECT_TRUE(soon(seen.asked, 3));
  watch.look();
  EXPECT_EQ(seen.lost, -1);
}

TEST(node_watch, one_that_ended_before_is_lost) {
  pid_t const other = child();
  end(other, true);
  observed seen;
  node_watch watch;
  watch.start({{.rank = 5, .process = other}}, seen.calls(false));
  EXPECT_EQ(seen.lost, 5);
}

TEST(node_watch, ends_while_others_live) {
  pid_t const other = child();
  observed seen;
  {
    node_watch watch;
    watch.start({{.rank = 3, .process = other}}, seen.calls(false));
  }
  EXPECT_EQ(seen.asked, -1);
  end(other, true);
}

}  // namespace
}  // namespace tanada::port
