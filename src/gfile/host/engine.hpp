// gfile/host/engine.hpp: the threads (or the simulation's single one) that move the core: poll the ring, post to the
// stores, reap them.
//
// Lock: mutex_ is held around every call of the core and never while a store or a kernel is waited for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gfile/host/core.hpp"

namespace tanada::gfile {

class engine {
 public:
  // `thread_count` 0: no threads; the caller calls step(0) itself.
  engine(core &core, rpc::server &server, port::clock &clock, uint32_t thread_count);
  // stop() must have been called if there are threads.
  ~engine();

  // One round of service thread `index`. True if there was something to do.
  bool step(uint32_t index);

  void stop();

  // Write back and close everything. timed_out if that is not done by the deadline.
  status shut_down(uint64_t deadline_ns);

  template <class Function>
  auto with_core(Function function) {
    std::lock_guard const lock{mutex_};
    return function(core_);
  }

 private:
  // One service thread's own: its share of the slots, its queues at the stores.
  struct worker {
    uint32_t first_slot = 0, slots = 0;
    std::map<port::store *, std::unique_ptr<port::store_queue>> queues;
    std::deque<std::unique_ptr<operation>> taken;  // of the backlog, to be posted
    std::vector<std::pair<std::unique_ptr<operation>, port::store_completion>> reaped;
    uint64_t last_tick_ns = 0;
    uint64_t last_news_ns = 0;
    std::thread thread;
  };

  void run(uint32_t index);
  void complete(worker &mine);
  void take_work(worker &mine);
  bool post_taken(worker &mine);
  bool reap(worker &mine);
  void rest(worker &mine);

  core &core_;
  rpc::server &server_;
  port::clock &clock_;
  std::mutex mutex_;  // guards core_ and backlog_
  std::deque<std::unique_ptr<operation>> backlog_;  // to be posted, by whichever thread comes first
  std::atomic<bool> has_backlog_ = false;
  std::vector<std::unique_ptr<worker>> workers_;
  std::atomic<bool> stopping_ = false;
};

}  // namespace tanada::gfile
