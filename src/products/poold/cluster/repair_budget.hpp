// products/poold/cluster/repair_budget.hpp: how fast a server copies what other servers lack.
#pragma once

#include <cstdint>

#include "core/base/mutex.hpp"

namespace tanada::poold {

/**
 * The bytes that comparisons may send now, of all links of a server.
 *
 * With a bandwidth of 0, they are limited only while clients change something.
 *
 * **Thread safety** All calls, by any thread.
 */
class repair_budget {
 public:
  // While clients change something, without a bandwidth of the user.
  static constexpr uint64_t shared_bandwidth = 64 << 20;
  static constexpr uint64_t idle_after_ns = 200'000'000;

  explicit repair_budget(uint64_t bandwidth) : bandwidth_{bandwidth} {}

  // A client has changed something.
  void note_change(uint64_t now_ns);

  bool is_available(uint64_t now_ns);
  void spend(uint64_t size);

  // Sum of all that was spent.
  uint64_t spent_size() const;

 private:
  void refill(uint64_t now_ns) TND_REQUIRES(mutex_);

  uint64_t const bandwidth_;  // bytes a second
  mutable mutex mutex_;
  double available_size_ TND_GUARDED_BY(mutex_) = 0;  // below 0: the last object was larger
  uint64_t refilled_ns_ TND_GUARDED_BY(mutex_) = 0, changed_ns_ TND_GUARDED_BY(mutex_) = 0;
  uint64_t spent_size_ TND_GUARDED_BY(mutex_) = 0;
};

}  // namespace tanada::poold
