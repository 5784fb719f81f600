// seams/os/team.hpp: threads that share a loop with their caller while processors have nothing
// else to do.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace tanada::port {

// Of the processors that the calling thread may run on, how many besides its own nobody uses right
// now, as far as the system tells: all processes count. 0 where it does not tell. Some 4 us.
unsigned idle_processor_count();

// The threads are made when they are first of use and sleep between loops. Thread-safe: of two
// loops at a time, one is its caller's alone. So is every loop of a process that was forked:
// helpers stay with the one that made them.
class team {
 public:
  using body = std::function<void(uint32_t)>;

  // `idle` says before each loop how many helpers could run at once.
  explicit team(unsigned helper_count_max, std::function<unsigned()> idle = idle_processor_count);
  ~team();
  team(const team &) = delete;
  team &operator=(const team &) = delete;

  // one(i) for each i below `count`, each once and in no order, by the caller and by helpers;
  // returns when all are done. A helper that comes late finds less to do: nobody waits for it to
  // begin. `one` must not throw.
  void run(uint32_t count, const body &one);

 private:
  struct crew;  // the threads, and what they share

  unsigned const helper_count_max_;
  std::function<unsigned()> const idle_;
  std::atomic<bool> taken_{false};  // by the caller of the loop at work
  std::unique_ptr<crew> crew_;      // changed by that one alone
};

}  // namespace tanada::port
