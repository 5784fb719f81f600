// products/gfile/host/engine.hpp: the threads (or the simulation's single one) that drive the core:
// poll the ring, post to the stores, reap completions.
//
// Thread 0, the dispatcher, polls the ring and runs the core. One processor handles more requests
// than a GPU sends, and the core's data stay in its cache. The dispatcher carries out store
// operations, mostly copies, itself while there are few. Otherwise it leaves them to the helpers,
// which return the completed ones. Idle helpers are parked and woken by load. The dispatcher, which
// no kernel can wake, sleeps for short intervals.
//
// Locks, never two at a time: mutex_ is held around every call of the core, and never during a wait
// for a store or a kernel. work_mutex_ guards the backlog, a worker's done_mutex the operations
// that it returns, and park_mutex_ the parking. The dispatcher never sleeps for a lock that helpers
// take: it defers the work to its next round.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/mutex.hpp"
#include "executor/event.hpp"
#include "executor/yield.hpp"
#include "products/gfile/host/core.hpp"

namespace tanada::gfile {

struct engine_options {
  uint32_t thread_count = 0;  // 0: no threads; the caller calls step(0) itself
  int node = -1;              // memory node to whose processors the threads are bound; -1: none
  bool do_kernels_signal = false;  // host_event(), as on the host executor
};

class engine {
 public:
  engine(core &core,
         rpc::server &server,
         backends::store_registry &stores,
         seams::clock &clock,
         const engine_options &options);
  // stop() must have been called if there are threads.
  ~engine();

  // One round of service thread `index`. Returns true if there was work.
  bool step(uint32_t index);

  void stop();

  // Wait until the closes that kernels have posted are complete, for at most `limit_ns`.
  // `abandons_late`: the next call does not wait for those that are still incomplete.
  void finish_closes(uint64_t limit_ns, bool abandons_late);

  // Write back and close everything. timed_out: not complete by the deadline.
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

  // The state of one service thread: its queues at the stores and its operations.
  struct worker {
    // The thread sleeps until this is signaled, where all that it waits for signals. The queues
    // refer to it.
    simt::host::event own_event;
    simt::host::event *signaled = &own_event;
    u32 ticket = 0;  // of `signaled`, at the beginning of the step
    std::vector<std::pair<seams::store *, std::unique_ptr<seams::store_queue>>> queues;
    std::deque<std::unique_ptr<operation>> assigned;  // from the backlog, to be posted
    operations done;
    // On a cache line of their own, because the dispatcher polls them.
    alignas(64) mutex done_mutex;
    // Completed operations for the dispatcher to collect.
    operations returned TND_GUARDED_BY(done_mutex);
    std::atomic<size_t> returned_count = 0;
    alignas(64) uint64_t now_ns = 0;  // at the beginning of the step
    uint64_t last_work_ns = 0;        // when there was work last
    uint32_t empty_rounds = 0;
    simt::host::yielder yielder;
    condition_variable wake;
    std::thread thread;
  };

  void run(uint32_t index);
  bool dispatch(worker &self);
  bool help(worker &self);
  void report_done(worker &self);
  void trace_counters();
  void distribute_work(worker &self, bool has_work);
  void collect_done(worker &self);
  bool share_operations(uint32_t awake) TND_REQUIRES(work_mutex_);
  void take_work(worker &self, size_t count_max) TND_REQUIRES(work_mutex_);
  void count_work() TND_REQUIRES(work_mutex_);
  status post(worker &self, operation &next, bool &done);
  static status post_to(seams::store_queue &queue, operation &next, bool &done);
  static void close_each(seams::store_queue &queue, operation &batch);
  static status post_list(seams::store_queue &queue, operation &list, bool &done);
  static operation *finish_page_read(const seams::store_completion &result);
  static void query_access(operation &opened);
  bool post_assigned(worker &self);
  seams::store_queue *queue_of(worker &self, seams::store *target_store, status &code);
  bool reap(worker &self);
  void wake_another();
  bool park(worker &self, uint32_t index);
  bool can_sleep(const worker &self, uint32_t index) const;
  void idle(worker &self, uint32_t index);

  core &core_;
  rpc::server &server_;
  backends::store_registry &stores_;
  seams::clock &clock_;
  int node_;
  bool do_kernels_signal_;
  mutex mutex_;                 // guards core_ and server_
  operations unshared_;         // the dispatcher's: taken from the core, not distributed yet
  uint64_t unshared_size_ = 0;  // bytes that they move
  size_t unshared_count_ = 0;   // calls of stores
  uint64_t last_tick_ns_ = 0;
  uint64_t abandoned_count_ TND_GUARDED_BY(mutex_) = 0;  // posted closes that no call waits for
  core_statistics traced_;                               // the values of the last trace
  mutex work_mutex_;
  // To be posted, by any thread.
  std::deque<std::unique_ptr<operation>> backlog_ TND_GUARDED_BY(work_mutex_);
  // Only for helpers: the dispatcher must not wait for a plugin.
  std::deque<std::unique_ptr<operation>> loads_ TND_GUARDED_BY(work_mutex_);
  std::atomic<size_t> backlog_count_ = 0;               // of both, to be checked without the lock
  alignas(64) std::atomic<size_t> returned_count_ = 0;  // of all workers
  std::vector<std::unique_ptr<worker>> workers_;
  mutex park_mutex_;  // guards changes of awake_ and stopping_
  std::atomic<uint32_t> awake_ =
      1;  // threads awake_ and above are parked, or will be when their stores have answered
  std::atomic<bool> stopping_ = false;
};

}  // namespace tanada::gfile
