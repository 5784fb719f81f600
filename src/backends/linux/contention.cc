#include "seams/os/contention.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <utility>

namespace tanada::port {

namespace {

// The calling thread's own file: who opens it is whom it tells of. A process that was forked hears
// of its parent.
class own_times {
 public:
  ~own_times() {
    if (descriptor_ >= 0)
      close(descriptor_);
  }

  // Nanoseconds that the thread has waited for processors, from Linux's schedstat; false: they are
  // not counted here.
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
thread_local own_times times;
thread_local uint64_t asked_ns = 0;  // all that was waited when it was last read

}  // namespace

bool processors::are_short(uint64_t now_ns) noexcept {
  if (!rule.is_due(now_ns))
    return rule.is_short();
  uint64_t all_ns = 0;
  if (!times.read(all_ns))
    return true;
  asked_ns = all_ns;
  rule.look(now_ns, all_ns);
  return rule.is_short();
}

uint64_t processors::waited_ns() noexcept {
  uint64_t all_ns = 0;
  if (!times.read(all_ns))
    return 0;
  return all_ns - std::exchange(asked_ns, all_ns);
}

void processors::slept(uint64_t now_ns) noexcept {
  uint64_t all_ns = 0;
  if (!times.read(all_ns))
    return;
  asked_ns = all_ns;
  rule.begin(now_ns, all_ns);
}

}  // namespace tanada::port
