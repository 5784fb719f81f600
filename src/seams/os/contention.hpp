// seams/os/contention.hpp: whether threads queue for processors.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tanada::port {

// A thread that spins, or computes, where another wants its processor is taken off it, and waits.
// What it waits after a sleep is not counted: a processor that slept as well takes a while to wake.
class contention_rule {
 public:
  static constexpr uint64_t look_ns = 1'000'000;  // between looks while processors are free
  // So long they are held to be short: the longer, the more often it was so. Who is wrong about it
  // loses a time slice.
  static constexpr uint64_t hold_ns_min = 10'000'000, hold_ns_max = 320'000'000;

  bool is_due(uint64_t now_ns) const noexcept {
    return now_ns - looked_ns_ >= (is_short_ ? hold_ns_ : look_ns);
  }
  bool is_short() const noexcept {
    return is_short_;
  }

  // Short: the thread has waited for a sixteenth of the time. `waited_ns`: all that it ever waited
  // for processors.
  void look(uint64_t now_ns, uint64_t waited_ns) noexcept {
    bool const is_short = waited_ns - base_waited_ns_ > (now_ns - base_ns_) / 16;
    if (is_short && !is_short_)
      hold_ns_ =
          now_ns - freed_ns_ < 8 * hold_ns_ ? std::min(2 * hold_ns_, hold_ns_max) : hold_ns_min;
    if (!is_short && is_short_)
      freed_ns_ = now_ns;
    is_short_ = is_short;
    looked_ns_ = now_ns;
    begin(now_ns, waited_ns);
  }

  // The time until now does not count.
  void begin(uint64_t now_ns, uint64_t waited_ns) noexcept {
    base_ns_ = now_ns;
    base_waited_ns_ = waited_ns;
  }

 private:
  uint64_t base_ns_ = 0, base_waited_ns_ = 0, looked_ns_ = 0, freed_ns_ = 0, hold_ns_ = hold_ns_min;
  bool is_short_ = false;
};

// What the calling thread learns of the processors. Reads from /proc, some 600 ns.
struct processors {
  // Whether it has lately had to wait for one; true where the system does not tell. Reads when a
  // look is due.
  static bool are_short(uint64_t now_ns) noexcept;

  // Nanoseconds that it has waited for one since any of these last read; 0 where the system does
  // not tell.
  static uint64_t waited_ns() noexcept;

  // It has slept of its own will.
  static void slept(uint64_t now_ns) noexcept;
};

}  // namespace tanada::port
