// seams/os/contention.hpp: whether threads compete for processors.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tanada::seams {

// A thread that spins or computes is preempted, and waits, where another thread needs its
// processor. Waits after a sleep are not counted: a processor that slept as well takes a while to
// wake.
class contention_rule {
 public:
  static constexpr uint64_t check_interval_ns =
      1'000'000;  // between checks while processors are free
  // How long the processors then count as oversubscribed: the longer, the more often they were. A
  // wrong guess costs a time slice.
  static constexpr uint64_t hold_ns_min = 10'000'000, hold_ns_max = 320'000'000;
  static_assert(check_interval_ns < hold_ns_min && hold_ns_min < hold_ns_max);

  bool is_due(uint64_t now_ns) const noexcept {
    return now_ns - checked_ns_ >= (is_oversubscribed_ ? hold_ns_ : check_interval_ns);
  }
  bool is_oversubscribed() const noexcept {
    return is_oversubscribed_;
  }

  // Oversubscribed: the thread has waited for a sixteenth of the time. `waited_ns`: all that it
  // ever waited for processors.
  void update(uint64_t now_ns, uint64_t waited_ns) noexcept {
    bool const oversubscribed = waited_ns - base_waited_ns_ > (now_ns - base_ns_) / 16;
    if (oversubscribed && !is_oversubscribed_)
      hold_ns_ =
          now_ns - freed_ns_ < 8 * hold_ns_ ? std::min(2 * hold_ns_, hold_ns_max) : hold_ns_min;
    if (!oversubscribed && is_oversubscribed_)
      freed_ns_ = now_ns;
    is_oversubscribed_ = oversubscribed;
    checked_ns_ = now_ns;
    restart(now_ns, waited_ns);
  }

  // The time until now does not count.
  void restart(uint64_t now_ns, uint64_t waited_ns) noexcept {
    base_ns_ = now_ns;
    base_waited_ns_ = waited_ns;
  }

 private:
  uint64_t base_ns_ = 0, base_waited_ns_ = 0, checked_ns_ = 0, freed_ns_ = 0,
           hold_ns_ = hold_ns_min;
  bool is_oversubscribed_ = false;
};

// What the calling thread finds out about the processors. Reads from /proc, which takes about 600
// ns.
struct processors {
  // Whether the thread recently had to wait for a processor; true where the system does not report
  // it. Reads when a check is due.
  static bool is_oversubscribed(uint64_t now_ns) noexcept;

  // Nanoseconds that it has waited for one since any of these functions last read; 0 where the
  // system does not report it.
  static uint64_t waited_ns() noexcept;

  // The thread has slept voluntarily.
  static void record_sleep(uint64_t now_ns) noexcept;
};

}  // namespace tanada::seams
