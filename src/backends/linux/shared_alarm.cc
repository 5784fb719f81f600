#include "seams/os/shared_alarm.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tanada::port {

// Not FUTEX_PRIVATE: the processes are several.
void shared_alarm::sleep_until_other(uint32_t heard, uint64_t timeout_ns) noexcept {
  timespec const limit{.tv_sec = time_t(timeout_ns / 1'000'000'000),
                       .tv_nsec = long(timeout_ns % 1'000'000'000)};
  (void)syscall(SYS_futex, &rings_, FUTEX_WAIT, heard, &limit, nullptr, 0);
}

void shared_alarm::wake() noexcept {
  rings_.fetch_add(1);
  (void)syscall(SYS_futex, &rings_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace tanada::port
