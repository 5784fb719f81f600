#include "seams/clock/clock.hpp"

#include <tanada/status.h>

#include <ctime>
#include <thread>

namespace tanada::seams {
namespace {

constexpr uint64_t second_ns = 1000000000;

class clock_monotonic final : public clock {
 public:
  uint64_t now_ns() noexcept override {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    uint64_t const value = uint64_t(time.tv_sec) * second_ns + uint64_t(time.tv_nsec);
    return value == 0 ? 1 : value;
  }

  void yield() noexcept override {
    std::this_thread::yield();
  }

  uint64_t wall_ns() noexcept override {
    timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return uint64_t(time.tv_sec) * second_ns + uint64_t(time.tv_nsec);
  }

  void sleep_ns(uint64_t duration_ns) noexcept override {
    timespec const time{time_t(duration_ns / second_ns), long(duration_ns % second_ns)};
    nanosleep(&time, nullptr);
  }
};

constinit clock_monotonic monotonic;

}  // namespace

clock &monotonic_clock() noexcept {
  return monotonic;
}

uint64_t deadline_after(uint64_t now_ns, uint64_t timeout_ns) noexcept {
  if (timeout_ns == TND_NO_DEADLINE)
    return TND_NO_DEADLINE;
  // Saturate: a timeout beyond the range is still a deadline, one below TND_NO_DEADLINE.
  return timeout_ns < TND_NO_DEADLINE - now_ns ? now_ns + timeout_ns : TND_NO_DEADLINE - 1;
}

}  // namespace tanada::seams
