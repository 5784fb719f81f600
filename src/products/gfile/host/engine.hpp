// products/gfile/host/engine.hpp: the threads (or the simulation's single one) that move the core:
// poll the ring, post to the stores, reap them.
//
// Thread 0, the dispatcher, polls the ring and runs the core: requests come so cheap that one
// processor takes in more than a GPU asks for, and what the core touches stays in its cache. What
// the stores do, copies above all, it does itself while there is little; else it is left to the
// helpers, who hand back what is done. Helpers with nothing to do are parked and woken by load; the
// dispatcher, whom no kernel can wake, sleeps for moments.
//
// Locks, never two at a time: mutex_ is held around every call of the core and never while a store
// or a kernel is waited for. work_mutex_ guards the backlog, a worker's done_mutex what it hands
// back, and park_mutex_ the parking. The dispatcher never sleeps for a lock that helpers take: what
// it cannot do now it does in its next round.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/mutex.hpp"
#include "executor/yield.hpp"
#include "products/gfile/host/core.hpp"

namespace tanada::gfile {

struct engine_options {
  uint32_t thread_count = 0;  // 0: no threads; the caller calls step(0) itself
  int node = -1;              // memory node to whose processors the threads are bound; -1: none
};

class engine {
 public:
  engine(core &core, rpc::server &server, port::store_registry &stores, port::clock &clock,
         const engine_options &options);
  // stop() must have been called if there are threads.
  ~engine();

  // One round of service thread `index`. True if there was something to do.
  bool step(uint32_t index);

  void stop();

  // Wait until the closes that kernels have posted are done, `limit_ns` at most. `gives_up`: the
  // next call does not wait for those that are left.
  void finish_closes(uint64_t limit_ns, bool gives_up);

  // Write back and close everything. timed_out if that is not done by the deadline.
  status shut_down(uint64_t deadline_ns);

  // Threads that are not parked.
  uint32_t awake_count() const {
    return awake_.load(std::memory_order_relaxed);
  }

  template <class Function>
  auto with_core(Function function) {
    lock_guard const lock{mutex_};
    return function(core_);
  }

 private:
  using operations = std::vector<std::unique_ptr<operation>>;

  // One service thread's own: its queues at the stores and what it is about.
  struct worker {
    std::vector<std::pair<port::store *, std::unique_ptr<port::store_queue>>> queues;
    std::deque<std::unique_ptr<operation>> taken;  // of the backlog, to be posted
    operations done;
    // On a cache line of their own, for the dispatcher looks at them.
    alignas(64) mutex done_mutex;
    operations handed_back;  // to the dispatcher, which has not taken them; under done_mutex
    std::atomic<size_t> handed_back_count = 0;
    alignas(64) uint64_t now_ns = 0;  // as the step began
    uint64_t last_news_ns = 0;        // when there was something to do last
    uint32_t empty_rounds = 0;
    simt::host::yielder yielder;
    condition_variable wake;
    std::thread thread;
  };

  void run(uint32_t index);
  bool dispatch(worker &mine);
  bool help(worker &mine);
  void tell_done(worker &mine);
  void trace_counters();
  void share_work(worker &mine, bool news);
  void take_done(worker &mine);
  void take_work(worker &mine, size_t count_max);
  void count_work();
  status post(worker &mine, operation &next, bool &done);
  static void look_at(operation &opened);
  bool post_taken(worker &mine);
  port::store_queue *queue_of(worker &mine, port::store *where, status &code);
  bool reap(worker &mine);
  void wake_another();
  bool park(worker &mine, uint32_t index);
  void rest(worker &mine);

  core &core_;
  rpc::server &server_;
  port::store_registry &stores_;
  port::clock &clock_;
  int node_;
  mutex mutex_;             // guards core_ and server_
  operations made_;         // the dispatcher's: out of the core, not shared out yet
  uint64_t made_size_ = 0;  // bytes that they move
  uint64_t last_tick_ns_ = 0;
  uint64_t given_up_count_ = 0;  // posted closes that nobody waits for; under mutex_
  core_statistics traced_;       // as drawn last
  mutex work_mutex_;
  std::deque<std::unique_ptr<operation>> backlog_;  // to be posted, by whichever thread comes first
  std::deque<std::unique_ptr<operation>>
      loads_;  // for helpers alone: the dispatcher must not wait for a plugin
  std::atomic<size_t> backlog_count_ = 0;                  // of both, for a look without the lock
  alignas(64) std::atomic<size_t> handed_back_count_ = 0;  // by all workers
  std::vector<std::unique_ptr<worker>> workers_;
  mutex park_mutex_;  // guards changes of awake_ and stopping_
  std::atomic<uint32_t> awake_ =
      1;  // threads awake_ and above are parked, or will be when their stores have answered
  std::atomic<bool> stopping_ = false;
};

}  // namespace tanada::gfile
