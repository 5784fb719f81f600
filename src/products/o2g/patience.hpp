// products/o2g/patience.hpp: whether acknowledgements wait a moment for what the program is about
// to send.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tanada::o2g {

// A program that waits for a message and answers it sends two things after one another: our
// acknowledgement, and its answer, which is what the other side waits for. An acknowledgement costs
// some microseconds. Where programs have been seen to send at once after they were told, it goes
// after, with the next look at what has come; where they go off to compute it would go late, so one
// such case counts for many of the others.
class patience {
 public:
  // What a drive has answered consists of acknowledgements alone. True: they wait.
  bool waits(uint64_t now_ns) noexcept {
    answered_ns_ = now_ns;
    is_open_ = true;
    is_waiting_ = score_ >= score_needed;
    return is_waiting_;
  }

  // The program sends something.
  void sent(uint64_t now_ns) noexcept {
    if (!is_open_)
      return;
    is_open_ = false;
    score_ += now_ns - answered_ns_ < soon_ns ? 1 : -1;
    score_ = std::clamp(score_, score_min, score_max);
  }

  // The program looks for more without having sent: acknowledgements that wait go now, which cost
  // nobody anything.
  void looked() noexcept {
    is_open_ = false;
    is_waiting_ = false;
  }

  // Nobody came for so long that the engine's thread took over.
  void left() noexcept {
    if (is_waiting_)
      score_ = score_min;
    looked();
  }

 private:
  static constexpr int32_t score_needed = 4, score_max = 8, score_min = -64;
  static constexpr uint64_t soon_ns = 20'000;

  uint64_t answered_ns_ = 0;
  int32_t score_ = 0;
  bool is_open_ = false;  // it is still to be seen whether the program sends
  bool is_waiting_ = false;
};

}  // namespace tanada::o2g
