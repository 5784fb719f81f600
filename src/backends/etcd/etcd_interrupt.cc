// backends/etcd/etcd_interrupt.cc: an interrupt by an eventfd, for waits in poll().
#include "backends/etcd/etcd_interrupt.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace tanada::backends {

etcd_interrupt::etcd_interrupt() : file_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {}

etcd_interrupt::~etcd_interrupt() {
  if (file_ >= 0)
    ::close(file_);
}

void etcd_interrupt::raise() noexcept {
  is_raised_ = true;
  uint64_t const value = 1;
  (void)!::write(file_, &value, sizeof value);
}

void etcd_interrupt::reset() noexcept {
  uint64_t value = 0;
  (void)!::read(file_, &value, sizeof value);
  is_raised_ = false;
}

}  // namespace tanada::backends
