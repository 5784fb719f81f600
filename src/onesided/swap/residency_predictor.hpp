// onesided/swap/residency_predictor.hpp: predicts from its previous waits whether a process will
// touch all of its memory after a wait.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tanada::onesided::swap {

// Programs repeat themselves: some waits are followed by work on all of a process's memory, others
// by another wait. The results of the last few waits identify a position in the program's loop. The
// result that followed that position before is the prediction.
//
// Thread safety: one thread at a time.
class residency_predictor {
 public:
  bool expects_full_use() const noexcept {
    return counters_[recent_] >= threshold;
  }

  // Records the result of one more wait. Swapping in too late costs more than swapping in
  // needlessly, so one full use is enough to expect another.
  void learn(bool used_all) noexcept {
    auto &counter = counters_[recent_];
    if (used_all)
      counter = uint8_t(std::min(counter + threshold, counter_max));
    else if (counter > 0)
      counter--;
    recent_ = uint8_t((recent_ << 1 | uint8_t(used_all)) % counters_.size());
  }

 private:
  static constexpr int history_length = 6, threshold = 2, counter_max = 3;
  static_assert(history_length < 8, "the results fit into a byte");
  static_assert(threshold <= counter_max);

  uint8_t recent_ = 0;  // one bit for each wait
  std::array<uint8_t, 1 << history_length> counters_{};
};

}  // namespace tanada::onesided::swap
