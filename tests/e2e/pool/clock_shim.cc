#include "e2e/pool/clock_shim.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

using tanada::test::clock_offsets;

namespace {

constexpr int64_t second_ns = 1'000'000'000;
std::atomic<clock_offsets *> in_use{nullptr};

__attribute__((constructor)) void begin() {
  if (const char *const path = std::getenv("TND_TEST_CLOCK_FILE"); path != nullptr)
    (void)tnd_test_clock_use(path);
}

}  // namespace

extern "C" {

clock_offsets *tnd_test_clock_use(const char *path) {
  int const file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(clock_offsets)) != 0)
    return nullptr;
  void *const addr =
      mmap(nullptr, sizeof(clock_offsets), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (addr == MAP_FAILED)
    return nullptr;
  in_use = static_cast<clock_offsets *>(addr);
  return in_use;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t which, timespec *time) noexcept {
  long const code = syscall(SYS_clock_gettime, which, time);
  clock_offsets *const by = in_use;
  if (code != 0 || by == nullptr)
    return int(code);
  bool const wall = which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE || which == CLOCK_TAI;
  bool const monotonic = which == CLOCK_MONOTONIC || which == CLOCK_MONOTONIC_COARSE ||
                         which == CLOCK_MONOTONIC_RAW || which == CLOCK_BOOTTIME;
  int64_t const offset_ns = wall ? by->wall_ns.load() : monotonic ? by->monotonic_ns.load() : 0;
  int64_t const now_ns = time->tv_sec * second_ns + time->tv_nsec + offset_ns;
  time->tv_sec = now_ns / second_ns;
  time->tv_nsec = now_ns % second_ns;
  return 0;
}

__attribute__((visibility("default"))) int gettimeofday(timeval *time, void *) noexcept {
  timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0)
    return -1;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *also) noexcept {
  timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0)
    return -1;
  if (also != nullptr)
    *also = now.tv_sec;
  return now.tv_sec;
}
}
