#include "port/machine/process_watch.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tanada::port {

process_watch::process_watch(std::span<const pid_t> processes) {
  for (auto const each : processes) descriptors_.push_back(int(syscall(SYS_pidfd_open, each, 0)));
}

process_watch::~process_watch() {
  for (auto const each : descriptors_) {
    if (each >= 0) close(each);
  }
}

int process_watch::ended() const noexcept {
  // Negative descriptors are ignored by poll.
  std::vector<pollfd> polled;
  for (auto const each : descriptors_) polled.push_back({.fd = each, .events = POLLIN, .revents = 0});
  if (poll(polled.data(), polled.size(), 0) <= 0) return -1;
  for (size_t i = 0; i < polled.size(); i++) {
    if (polled[i].revents & POLLIN) return int(i);
  }
  return -1;
}

}  // namespace tanada::port
