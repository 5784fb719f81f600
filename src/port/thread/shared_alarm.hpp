// port/thread/shared_alarm.hpp: sleeping in memory that processes share, until one of them rings.
#pragma once

#include <atomic>
#include <cstdint>

namespace tanada::port {

// Lies in shared memory, zeros at first. Who changes what others may wait for rings afterwards, which costs a load while
// nobody sleeps. A ring may be missed when it comes in the same moment as the sleep begins: sleeps are short, and repeated.
class alignas(64) shared_alarm {
 public:
  // Sleep until somebody rings, or for timeout_ns. is_ready() is asked once, when a ring is heard already.
  template <class Ready>
  void sleep(Ready &&is_ready, uint64_t timeout_ns) noexcept {
    sleepers_.fetch_add(1);
    uint32_t const heard = rings_.load();
    if (!is_ready()) sleep_until_other(heard, timeout_ns);
    sleepers_.fetch_sub(1);
  }

  void ring() noexcept {
    if (sleepers_.load(std::memory_order_relaxed) != 0) [[unlikely]] wake();
  }

 private:
  void sleep_until_other(uint32_t heard, uint64_t timeout_ns) noexcept;
  void wake() noexcept;

  std::atomic<uint32_t> sleepers_{0}, rings_{0};
};
static_assert(sizeof(shared_alarm) == 64 && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace tanada::port
