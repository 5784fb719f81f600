// tests/e2e/onesided/processes.hpp: tests whose PEs are processes of this one, which share a board
// with it and end by what they find wrong.
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

// Of a PE: it is as it has to be, or the process ends with 1 and says what is not.
inline void need(bool condition, const char *what, int64_t number = 0) {
  if (condition)
    return;
  std::fprintf(stderr, "pe process %d: %s (%lld): %s\n", int(getpid()), what,
               static_cast<long long>(number), last_message().c_str());
  _exit(1);
}
inline void need(status code, const char *what) {
  need(code == status::ok, what, int64_t(code));
}

// The parameter is a provider. Board: what the processes know of one another, in memory that they
// share; its `is_missing` says that there is no such provider.
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

  // Start `count` that do `work` with their number, and for a hang end after so many seconds.
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

  // All have ended well, but for the one that is killed or kills itself. Skips the test if there is
  // no provider.
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
