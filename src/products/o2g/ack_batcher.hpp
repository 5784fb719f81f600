// products/o2g/ack_batcher.hpp: decides whether ACKs are delayed until the program's next send.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tanada::o2g {

// If a program answers a message, two messages follow each other: the engine's ACK, and the answer,
// which is the one that the peer waits for. Sending an ACK takes some microseconds. If the program
// has usually sent at once after a completion, the ACK is delayed until the next poll, so that the
// answer goes first. If the program computes instead, the ACK would be late. One such case
// therefore outweighs many of the others.
class ack_batcher {
 public:
  // A drive has queued only ACKs. Returns true if they are delayed.
  bool should_delay(uint64_t now_ns) noexcept {
    acked_ns_ = now_ns;
    is_observing_ = true;
    has_delayed_acks_ = score_ >= score_needed;
    return has_delayed_acks_;
  }

  // Records that the program sends.
  void record_send(uint64_t now_ns) noexcept {
    if (!is_observing_)
      return;
    is_observing_ = false;
    score_ += now_ns - acked_ns_ < prompt_ns ? 1 : -1;
    score_ = std::clamp(score_, score_min, score_max);
  }

  // Records that the program polls without having sent: delayed ACKs are sent now, at no cost to
  // the program.
  void record_poll() noexcept {
    is_observing_ = false;
    has_delayed_acks_ = false;
  }

  // Records that the program did not call for so long that the progress thread took over.
  void record_absence() noexcept {
    if (has_delayed_acks_)
      score_ = score_min;
    record_poll();
  }

 private:
  static constexpr int32_t score_needed = 4, score_max = 8, score_min = -64;
  static_assert(score_min < 0 && 0 < score_needed && score_needed <= score_max);
  static constexpr uint64_t prompt_ns = 20'000;

  uint64_t acked_ns_ = 0;
  int32_t score_ = 0;
  bool is_observing_ = false;  // waiting to see whether the program sends
  bool has_delayed_acks_ = false;
};

}  // namespace tanada::o2g
