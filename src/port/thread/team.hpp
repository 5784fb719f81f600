// port/thread/team.hpp: threads that share a loop with their caller while processors have nothing else to do.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tanada::port {

// Of the processors that the calling thread may run on, how many besides its own nobody uses right now, as far as the
// system tells: all processes count. 0 where it does not tell. Some 5 us.
unsigned idle_processor_count();

// The threads are made when they are first of use and sleep between loops. Thread-safe: of two loops at a time, one is
// its caller's alone.
class team {
 public:
  using body = std::function<void(uint32_t)>;

  // `idle` says before each loop how many helpers could run at once.
  explicit team(unsigned helper_count_max, std::function<unsigned()> idle = idle_processor_count);
  ~team();
  team(const team &) = delete;
  team &operator=(const team &) = delete;

  // one(i) for each i below `count`, each once and in no order, by the caller and by helpers; returns when all are done. A
  // helper that comes late finds less to do: nobody waits for it to begin. `one` must not throw.
  void run(uint32_t count, const body &one);

 private:
  bool start(unsigned helper_count);
  void share(uint32_t count, const body &one, unsigned helper_count);
  void help();
  void take_part(const body &one);

  unsigned const helper_count_max_;
  std::function<unsigned()> const idle_;
  std::atomic<bool> taken_{false};  // by the caller of the loop at work

  std::mutex mutex_;  // guards what follows; never held while a body runs
  std::condition_variable work_, done_;
  const body *body_ = nullptr;
  unsigned invited_ = 0, busy_ = 0;  // helpers that may join the loop, that are in it
  bool stopping_ = false;
  uint32_t count_ = 0;             // of the loop at work; written while nobody is in it
  std::atomic<uint32_t> next_{0};
  std::vector<std::thread> threads_;  // changed by the caller of the loop at work alone
};

}  // namespace tanada::port
