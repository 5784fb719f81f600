// tests/e2e/onesided/processes.hpp: tests whose PEs are child processes of the test. They share a
// board in memory with it, and exit with 1 at the first error.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "core/base/log.hpp"
#include "core/base/result.hpp"

namespace tanada::test {

// Checks a condition in a PE. If it does not hold, the process prints `what` and exits with 1.
inline void need(bool condition, const char *what, int64_t number = 0) {
  if (condition)
    return;
  std::fprintf(stderr,
               "pe process %d: %s (%lld): %s\n",
               int(getpid()),
               what,
               static_cast<long long>(number),
               last_message().c_str());
  _exit(1);
}
inline void need(status code, const char *what) {
  need(code == status::ok, what, int64_t(code));
}

// The parameter is a provider. Board is the state that the processes share; a process sets its
// `is_missing` where the provider is not available.
template <class Board>
class processes : public testing::TestWithParam<const char *> {
 protected:
  static constexpr uint32_t nobody = ~0u;

  processes() {
    void *const memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    board_ = new (memory) Board;
  }
  ~processes() override {
    for (pid_t const each : ids_) {
      kill(each, SIGKILL);
      waitpid(each, nullptr, 0);
    }
    munmap(board_, sizeof(Board));
  }

  // Starts `count` processes that call `work` with their number. A process that hangs is ended
  // after `limit_s` seconds.
  void start(uint32_t count, const std::function<void(uint32_t)> &work, unsigned limit_s) {
    for (uint32_t i = 0; i < count; i++) {
      pid_t const id = fork();
      if (id == 0) {
        alarm(limit_s);
        work(i);
        _exit(0);
      }
      ids_.push_back(id);
    }
  }

  // Expects that all have exited with 0, except for `dies`, which was killed. Skips the test if the
  // provider is not available.
  void expect_ends(uint32_t dies = nobody) {
    for (uint32_t i = 0; i < ids_.size(); i++) {
      int how = 0;
      ASSERT_EQ(waitpid(ids_[i], &how, 0), ids_[i]);
      if (board_->is_missing)
        continue;
      if (i == dies)
        EXPECT_TRUE(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL) << how;
      else
        EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << "of PE " << i << ": " << how;
    }
    ids_.clear();
    if (board_->is_missing)
      GTEST_SKIP() << "there is no provider " << GetParam();
  }

  Board *board_;
  std::vector<pid_t> ids_;
};

}  // namespace tanada::test
