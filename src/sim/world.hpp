// sim/world.hpp: virtual time, the order of events and randomness, all determined by one seed.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <queue>
#include <vector>

#include "core/base/assert.hpp"

namespace tanada::sim {

// splitmix64: small and fast, and every seed is equally good.
class prng {
 public:
  explicit prng(uint64_t seed) : state_{seed} {}
  uint64_t next() noexcept {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t bound) noexcept {
    TND_ASSERT(bound != 0);
    return next() % bound;
  }
  uint64_t between(uint64_t low, uint64_t high) noexcept {
    return low + below(high - low + 1);
  }
  bool chance(uint32_t percent) noexcept {
    return below(100) < percent;
  }

 private:
  uint64_t state_;
};

// Virtual time and the actions scheduled in it. A run with one thread depends only on its seed.
// Code under test that has threads of its own may share a world, because every call holds mutex().
// Such a run has the faults of its seed, but not its order.
class world {
 public:
  explicit world(uint64_t seed) : random{seed} {}

  // Every call of this class holds it. A caller that uses `random` from several threads must hold
  // it, too.
  std::recursive_mutex &mutex() noexcept {
    return mutex_;
  }

  uint64_t now_ns() {
    std::lock_guard lock{mutex_};
    return now_ns_;
  }

  // Schedules an action. Insertion order breaks ties. A time in the past means now.
  void schedule(uint64_t time_ns, std::function<void()> action) {
    std::lock_guard lock{mutex_};
    pending_.push({time_ns < now_ns_ ? now_ns_ : time_ns, sequence_++, std::move(action)});
  }

  // The time of the next action; ~0: none is scheduled.
  uint64_t next_ns() {
    std::lock_guard lock{mutex_};
    return pending_.empty() ? ~uint64_t{0} : pending_.top().time_ns;
  }

  // Runs the next action, however late it is due. False: none is scheduled.
  bool step() {
    std::lock_guard lock{mutex_};
    if (pending_.empty())
      return false;
    auto next = pending_.top();
    pending_.pop();
    now_ns_ = next.time_ns;
    note(now_ns_ + next.sequence);
    next.action();
    return true;
  }

  // Runs the actions due within `duration_ns` and advances the clock to the end of it.
  void advance(uint64_t duration_ns) {
    std::lock_guard lock{mutex_};
    uint64_t const end_ns =
        duration_ns > ~uint64_t{0} - now_ns_ ? ~uint64_t{0} : now_ns_ + duration_ns;
    while (!pending_.empty() && pending_.top().time_ns <= end_ns)
      step();
    now_ns_ = end_ns;
  }

  // Mix a value, such as an outcome, into the trace. Two runs with equal traces are the same run.
  void note(uint64_t value) {
    std::lock_guard lock{mutex_};
    trace_ = (trace_ ^ value) * 0x100000001B3u;
  }
  uint64_t trace() {
    std::lock_guard lock{mutex_};
    return trace_;
  }

  prng random;

 private:
  struct scheduled_action {
    uint64_t time_ns;
    uint64_t sequence;
    std::function<void()> action;
    bool operator<(const scheduled_action &right) const noexcept {
      return time_ns != right.time_ns ? time_ns > right.time_ns : sequence > right.sequence;
    }
  };

  std::recursive_mutex mutex_;
  std::priority_queue<scheduled_action> pending_;
  uint64_t now_ns_ = 1;  // a clock is never 0
  uint64_t sequence_ = 0, trace_ = 0xCBF29CE484222325u;
};

}  // namespace tanada::sim
