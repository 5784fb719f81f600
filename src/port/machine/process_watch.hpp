// port/machine/process_watch.hpp: which of some processes of this machine have ended.
#pragma once

#include <sys/types.h>

#include <span>
#include <vector>

namespace tanada::port {

// Descriptors of processes: a number that is used again does not deceive them. Thread safety: any thread may look.
class process_watch {
 public:
  // Processes that cannot be watched (of another process namespace, or an old kernel) count as alive.
  explicit process_watch(std::span<const pid_t> processes);
  process_watch(const process_watch &) = delete;
  process_watch &operator=(const process_watch &) = delete;
  ~process_watch();

  // Index of one that has ended, zombies included; -1. One system call.
  int ended() const noexcept;

 private:
  std::vector<int> descriptors_;
};

}  // namespace tanada::port
