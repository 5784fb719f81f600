// seams/os/team.hpp: threads that share a loop with their caller while processors are idle
// otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace tanada::seams {

// How many of the processors that the calling thread may run on are idle now, besides its own. All
// processes count, as far as the system reports them; 0 where it does not. Takes about 4 us.
unsigned idle_processor_count();

// The threads are created when they are first useful, and sleep between loops. Thread-safe: of two
// loops at a time, one runs only in its caller. So does every loop of a forked process: helpers
// stay with the process that created them.
class team {
 public:
  using body = std::function<void(uint32_t)>;

  // `idle` returns, before each loop, how many helpers could run at once.
  explicit team(unsigned helper_count_max, std::function<unsigned()> idle = idle_processor_count);
  ~team();
  team(const team &) = delete;
  team &operator=(const team &) = delete;

  // Calls task(i) for each i below `count`, each once and in no order, in the caller and in
  // helpers. Returns when all calls are done. The caller waits for no helper to begin: a late one
  // finds less to do. `task` must not throw.
  void run(uint32_t count, const body &task);

 private:
  struct helper_set;  // the threads, and what they share

  unsigned const helper_count_max_;
  std::function<unsigned()> const idle_;
  std::atomic<bool> is_running_{false};  // a loop is at work
  std::unique_ptr<helper_set> helpers_;  // changed only by its caller
};

}  // namespace tanada::seams
