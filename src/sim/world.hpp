// sim/world.hpp: one seed decides everything: time, order, faults.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <queue>
#include <vector>

namespace tanada::sim {

// splitmix64: small, fast, and any seed is as good as any other.
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
    return next() % bound;
  }  // bound > 0
  uint64_t between(uint64_t low, uint64_t high) noexcept {
    return low + below(high - low + 1);
  }
  bool chance(uint32_t percent) noexcept {
    return below(100) < percent;
  }

 private:
  uint64_t state_;
};

// Virtual time and what is to happen in it. A run by one thread is a function of the seed alone.
// Code under test that has threads of its own may share a world, since every call holds mutex();
// such a run has the faults but not the order of its seed.
class world {
 public:
  explicit world(uint64_t seed) : random{seed} {}

  // Held by every call here; whoever uses `random` from several threads holds it too.
  std::recursive_mutex &mutex() noexcept {
    return mutex_;
  }

  uint64_t now_ns() {
    std::lock_guard lock{mutex_};
    return now_ns_;
  }

  // Ties are broken by insertion order. A time in the past means now.
  void at(uint64_t time_ns, std::function<void()> action) {
    std::lock_guard lock{mutex_};
    pending_.push({time_ns < now_ns_ ? now_ns_ : time_ns, sequence_++, std::move(action)});
  }

  // When the next thing is due; ~0: nothing is left.
  uint64_t next_ns() {
    std::lock_guard lock{mutex_};
    return pending_.empty() ? ~uint64_t{0} : pending_.top().time_ns;
  }

  // Do the next thing, whenever it is due. False: nothing is left.
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

  // Do what is due within `duration_ns` and move the clock to its end.
  void advance(uint64_t duration_ns) {
    std::lock_guard lock{mutex_};
    uint64_t const end_ns =
        duration_ns > ~uint64_t{0} - now_ns_ ? ~uint64_t{0} : now_ns_ + duration_ns;
    while (!pending_.empty() && pending_.top().time_ns <= end_ns)
      step();
    now_ns_ = end_ns;
  }

  // Mix something into the trace, e.g. an outcome; equal traces: the same run.
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
  struct timed {
    uint64_t time_ns;
    uint64_t sequence;
    std::function<void()> action;
    bool operator<(const timed &other) const noexcept {
      return time_ns != other.time_ns ? time_ns > other.time_ns : sequence > other.sequence;
    }
  };

  std::recursive_mutex mutex_;
  std::priority_queue<timed> pending_;
  uint64_t now_ns_ = 1;  // a clock is never 0
  uint64_t sequence_ = 0, trace_ = 0xCBF29CE484222325u;
};

}  // namespace tanada::sim
