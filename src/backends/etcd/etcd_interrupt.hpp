// backends/etcd/etcd_interrupt.hpp: ends the waits of another thread.
#pragma once

#include <atomic>

namespace tanada::backends {

// Interrupts the waits of one thread, until it is reset.
class etcd_interrupt {
 public:
  etcd_interrupt();
  ~etcd_interrupt();
  etcd_interrupt(const etcd_interrupt &) = delete;
  etcd_interrupt &operator=(const etcd_interrupt &) = delete;

  void raise() noexcept;
  void reset() noexcept;
  bool is_raised() const noexcept {
    return is_raised_;
  }
  int file() const noexcept {
    return file_;
  }

 private:
  int file_;
  std::atomic<bool> is_raised_ = false;
};

}  // namespace tanada::backends
