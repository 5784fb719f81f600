// onesided/swap/need_history.hpp: whether a process will need all of its memory when its wait is
// over, by what followed its waits before.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tanada::comex::swap {

// Programs repeat themselves: some waits are followed by work on all that a process has, others by
// another wait. What followed the last few waits says where in its round a program is; what came
// next there before is what is expected now.
//
// Thread safety: one thread at a time.
class need_history {
 public:
  bool expects_all() const noexcept {
    return counters_[recent_] >= sure;
  }

  // What followed one more wait. Memory that comes late costs more than memory that comes for
  // nothing.
  void learn(bool needed_all) noexcept {
    auto &counter = counters_[recent_];
    if (needed_all)
      counter = uint8_t(std::min(counter + sure, counter_max));
    else if (counter > 0)
      counter--;
    recent_ = uint8_t((recent_ << 1 | uint8_t(needed_all)) % counters_.size());
  }

 private:
  static constexpr int waits = 6, sure = 2, counter_max = 3;

  uint8_t recent_ = 0;  // a bit a wait
  std::array<uint8_t, 1 << waits> counters_{};
};

}  // namespace tanada::comex::swap
