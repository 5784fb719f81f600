// onesided/job/epochs.hpp: counts the outstanding operations of a context, so that its quiet waits
// only for those started before it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "core/base/assert.hpp"

namespace tanada::onesided {

// An operation belongs to the epoch in which it was started. An epoch ends when a quiet waits and
// no operation of the previous epoch is outstanding. A quiet therefore does not wait for operations
// that other threads start meanwhile, and two counters suffice.
//
// Thread safety: has_outstanding from any thread; all else under the mutex of the object that
// starts the operations.
class epochs {
 public:
  // Counts an operation as started. Returns its epoch, for end_operation().
  uint8_t start_operation() noexcept {
    auto const epoch = uint8_t(current_ % 2);
    outstanding_[epoch]++;
    total_.fetch_add(1, std::memory_order_relaxed);
    return epoch;
  }
  // A thread that sees no outstanding operation also sees the results of those that ended.
  void end_operation(uint8_t epoch) noexcept {
    TND_ASSERT(epoch < outstanding_.size() && outstanding_[epoch] != 0);
    outstanding_[epoch]--;
    total_.fetch_sub(1, std::memory_order_release);
  }
  bool has_outstanding() const noexcept {
    return total_.load(std::memory_order_acquire) != 0;
  }

  uint32_t current() const noexcept {
    return current_;
  }
  // Whether every operation is complete that was started before current() returned `epoch`. Poll it
  // until it is true: the calls advance the epoch.
  bool is_complete(uint32_t epoch) noexcept {
    if (current_ == epoch && outstanding_[(epoch + 1) % 2] == 0)
      current_++;
    bool const is_next = current_ == epoch + 1;
    return current_ != epoch && (!is_next || outstanding_[epoch % 2] == 0);
  }

 private:
  std::atomic<uint64_t> total_{0};
  uint32_t current_ = 0;
  std::array<uint64_t, 2> outstanding_{};  // indexed by epoch modulo 2
};

}  // namespace tanada::onesided
