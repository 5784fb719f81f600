// backends/linux/contention.cc: detects that threads compete for processors, from Linux's
// schedstat.
#include "seams/os/contention.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <utility>

namespace tanada::seams {

namespace {

// The calling thread's schedstat file, opened at first use. A forked process reads its parent's
// counters.
class thread_times {
 public:
  ~thread_times() {
    if (descriptor_ >= 0)
      close(descriptor_);
  }

  // Reads the nanoseconds that the thread has waited for processors. Returns false if the kernel
  // does not count them.
  bool read(uint64_t &waited_ns) noexcept {
    if (descriptor_ < 0)
      descriptor_ = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    char text[96];
    ssize_t const size = descriptor_ < 0 ? -1 : pread(descriptor_, text, sizeof text - 1, 0);
    if (size <= 0)
      return false;
    text[size] = '\0';
    uint64_t ran_ns = 0, run_count = 0;
    return std::sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &ran_ns, &waited_ns, &run_count) ==
               3 &&
           run_count != 0;
  }

 private:
  int descriptor_ = -1;
};

thread_local contention_rule rule;
thread_local thread_times times;
thread_local uint64_t last_waited_ns = 0;  // the total at the last read

}  // namespace

bool processors::is_oversubscribed(uint64_t now_ns) noexcept {
  if (!rule.is_due(now_ns))
    return rule.is_oversubscribed();
  uint64_t all_ns = 0;
  if (!times.read(all_ns))
    return true;
  last_waited_ns = all_ns;
  rule.update(now_ns, all_ns);
  return rule.is_oversubscribed();
}

uint64_t processors::waited_ns() noexcept {
  uint64_t all_ns = 0;
  if (!times.read(all_ns))
    return 0;
  return all_ns - std::exchange(last_waited_ns, all_ns);
}

void processors::record_sleep(uint64_t now_ns) noexcept {
  uint64_t all_ns = 0;
  if (!times.read(all_ns))
    return;
  last_waited_ns = all_ns;
  rule.restart(now_ns, all_ns);
}

}  // namespace tanada::seams
