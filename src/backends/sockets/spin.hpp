// backends/sockets/spin.hpp: polling for a bounded time before a sleep in the kernel.
#pragma once

#include <cstdint>

#include "seams/clock/clock.hpp"
#include "seams/os/yield.hpp"

namespace tanada::backends {

// A step of a loop that polls.
void spin_pause() noexcept;

// How long a thread may poll: 0 on a single processor, where the peer could not run meanwhile.
uint64_t useful_spin_ns(uint64_t spin_ns) noexcept;

// Polls for what takes less time than a sleep and a wake-up. If that was fruitless twice in
// succession, answers take longer at present, and only one wait in eight polls.
class spinner {
 public:
  explicit spinner(uint64_t spin_ns) noexcept : spin_ns_{spin_ns} {}

  // Calls is_ready() until it returns true, at most until the deadline.
  template <class Condition>
  bool spin(uint64_t deadline_ns, const Condition &is_ready) {
    if (spin_ns_ == 0)
      return false;
    if (fruitless_count_ >= fruitless_count_max && ++skipped_count_ % 8 != 0)
      return false;
    bool const success = poll(deadline_ns, is_ready);
    fruitless_count_ = success ? 0 : fruitless_count_ + 1;
    return success;
  }

 private:
  template <class Condition>
  bool poll(uint64_t deadline_ns, const Condition &is_ready) {
    seams::clock &clock = seams::monotonic_clock();
    uint64_t const start_ns = clock.now_ns();
    for (;;) {
      for (int i = 0; i < polls_per_clock; i++) {
        if (is_ready())
          return true;
        spin_pause();
      }
      uint64_t const now_ns = clock.now_ns();
      if (now_ns - start_ns >= spin_ns_ || now_ns >= deadline_ns)
        return false;
      if (now_ns - start_ns >= yield_after_ns && !seams::thread_yield())
        return false;
    }
  }

  static constexpr int polls_per_clock = 16;
  static constexpr uint32_t fruitless_count_max = 2;
  // After this time the peer may wait for this processor.
  static constexpr uint64_t yield_after_ns = 5'000;

  uint64_t spin_ns_;
  uint32_t fruitless_count_ = 0, skipped_count_ = 0;
};

}  // namespace tanada::backends
