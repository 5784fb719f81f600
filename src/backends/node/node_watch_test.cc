// Tests of watching the processes of a node.
#include "seams/bootstrap/node_watch.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>

namespace tanada::backends {
namespace {

// Forks a child that waits to be killed.
pid_t child() {
  pid_t const pid = fork();
  if (pid == 0) {
    for (;;)
      pause();
  }
  return pid;
}

void end(pid_t process, bool reap) {
  kill(process, SIGKILL);
  siginfo_t info;
  waitid(P_PID, id_t(process), &info, WEXITED | (reap ? 0 : WNOWAIT));
}

struct observed {
  std::atomic<int32_t> lost{-1}, queried_rank{-1};
  seams::node_watch_calls calls(bool has_left) {
    return {.has_departed =
                [this, has_left](int32_t rank) {
                  queried_rank = rank;
                  return has_left;
                },
            .on_failure =
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
  pid_t const child_pid = child(), third = child();
  observed observations;
  seams::node_watch watch;
  watch.start({{.rank = 3, .process = child_pid}, {.rank = 4, .process = third}},
              observations.calls(false));
  EXPECT_EQ(observations.lost, -1);
  end(child_pid, false);
  EXPECT_TRUE(soon(observations.lost, 3));
  end(third, true);
  waitpid(child_pid, nullptr, 0);
  EXPECT_TRUE(soon(observations.lost, 4));
}

TEST(node_watch, one_that_has_left_is_not) {
  pid_t const child_pid = child();
  observed observations;
  seams::node_watch watch;
  watch.start({{.rank = 3, .process = child_pid}}, observations.calls(true));
  end(child_pid, true);
  EXPECT_TRUE(soon(observations.queried_rank, 3));
  watch.check();
  EXPECT_EQ(observations.lost, -1);
}

TEST(node_watch, one_that_ended_before_is_lost) {
  pid_t const child_pid = child();
  end(child_pid, true);
  observed observations;
  seams::node_watch watch;
  watch.start({{.rank = 5, .process = child_pid}}, observations.calls(false));
  EXPECT_EQ(observations.lost, 5);
}

TEST(node_watch, ends_while_others_live) {
  pid_t const child_pid = child();
  observed observations;
  {
    seams::node_watch watch;
    watch.start({{.rank = 3, .process = child_pid}}, observations.calls(false));
  }
  EXPECT_EQ(observations.queried_rank, -1);
  end(child_pid, true);
}

}  // namespace
}  // namespace tanada::backends
