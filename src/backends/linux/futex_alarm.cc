// backends/linux/futex_alarm.cc: seams::alarm over futexes.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

#include "seams/alarm/alarm.hpp"

namespace tanada::seams {
namespace {

// Not FUTEX_PRIVATE: processes share the words.
class futex_system final : public alarm {
 public:
  bool wait(std::atomic<uint32_t> &word, uint32_t expected, uint64_t timeout_ns) noexcept override {
    timespec const limit{.tv_sec = time_t(timeout_ns / 1'000'000'000),
                         .tv_nsec = long(timeout_ns % 1'000'000'000)};
    return syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0) == 0 ||
           errno != ETIMEDOUT;
  }

  void wake_all(std::atomic<uint32_t> &word) noexcept override {
    (void)syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
};

constinit futex_system futexes;

}  // namespace

alarm &futex_alarm() noexcept {
  return futexes;
}

}  // namespace tanada::seams
