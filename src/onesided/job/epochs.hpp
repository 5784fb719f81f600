// onesided/job/epochs.hpp: what of a context is under way, so that its quiet waits for what was
// started before it and for nothing else.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace tanada::pgas {

// Operations belong to the epoch they were started in; one ends when none of the epoch before it is
// under way any more and somebody waits. So who waits does not wait for what others start
// meanwhile, and two counters are enough.
//
// Thread safety: is_any, any thread; all else under the mutex of who starts the operations.
class epochs {
 public:
  // The epoch of an operation that has been started, which ends with it.
  uint8_t begin() noexcept {
    auto const mine = uint8_t(now_ % 2);
    pending_[mine]++;
    total_.fetch_add(1, std::memory_order_relaxed);
    return mine;
  }
  // Who sees that nothing is under way sees what the operations brought.
  void end(uint8_t mine) noexcept {
    pending_[mine]--;
    total_.fetch_sub(1, std::memory_order_release);
  }
  bool is_any() const noexcept {
    return total_.load(std::memory_order_acquire) != 0;
  }

  uint32_t now() const noexcept {
    return now_;
  }
  // All that was started before now() was `mine` is over. To be asked until it is so.
  bool is_over(uint32_t mine) noexcept {
    if (now_ == mine && pending_[(mine + 1) % 2] == 0)
      now_++;
    bool const is_next = now_ == mine + 1;
    return now_ != mine && (!is_next || pending_[mine % 2] == 0);
  }

 private:
  std::atomic<uint64_t> total_{0};
  uint32_t now_ = 0;
  std::array<uint64_t, 2> pending_{};  // by epoch, modulo 2
};

}  // namespace tanada::pgas
