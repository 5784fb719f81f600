// seams/store/worker_pool.hpp: the threads behind blocking_store.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>

#include "core/base/mutex.hpp"
#include "seams/store/blocking_store.hpp"

namespace tanada::seams {

// Completions in transit from the workers to one queue. Thread-safe.
class completion_list {
 public:
  void push(store_completion completion);
  size_t take(std::span<store_completion> completions);
  // Called by push(), under the lock. Empty: none, and the old one is not called any more.
  void set_listener(std::function<void()> listener);

 private:
  friend class worker_pool;
  mutex mutex_;
  std::deque<store_completion> done_ TND_GUARDED_BY(mutex_);
  std::function<void()> listener_ TND_GUARDED_BY(mutex_);
  std::atomic<size_t> count_{0};
  uint32_t running_count_ = 0;  // operations inside the engine; guarded by the pool's mutex
};

// Threads that run operations. Operations of one file share a `file_queue`, which occupies a
// bounded number of threads at a time: a file that stalls blocks no more than those. Threads own a
// reference to the pool, so that a stuck one can be abandoned.
//
// Locking: mutex_ guards everything except the engine and the lists. It is never held during a call
// of the engine.
class worker_pool : public std::enable_shared_from_this<worker_pool> {
 public:
  worker_pool(std::shared_ptr<blocking_engine> engine, blocking_limits limits)
      : engine_{std::move(engine)}, limits_{limits} {}

  const char *scheme() const noexcept {
    return engine_->scheme();
  }

  // again: there is no thread and none can be started.
  status submit(store_op op, std::shared_ptr<completion_list> target);

  // Completes operations of `target` whose deadline passed while they waited, with timed_out.
  // Starts a thread if all seem to be stuck.
  void expire(completion_list &target, uint64_t now_ns);

  // Drops waiting operations of `target`, and waits for running ones. False: some are still running
  // after abandon_ns.
  bool drain(completion_list &target);

  // Threads take no more work. False: some are still inside the engine after abandon_ns.
  bool stop();

 private:
  struct task {
    store_op op;
    std::shared_ptr<completion_list> target;
  };
  struct file_queue {
    std::deque<task> tasks;
    uint32_t busy_count = 0;
    bool is_ready = false;  // in ready_
  };

  static uint64_t queue_key(const store_op &op);
  void work();
  void run_one(unique_lock<mutex> &lock) TND_REQUIRES(mutex_);
  void mark_ready(uint64_t key, file_queue &queue) TND_REQUIRES(mutex_);
  bool start_thread() TND_REQUIRES(mutex_);
  template <class Predicate>
  std::deque<task> take_queued(Predicate predicate) TND_REQUIRES(mutex_);

  std::shared_ptr<blocking_engine> engine_;
  const blocking_limits limits_;
  mutex mutex_;
  condition_variable wake_, finished_;
  std::unordered_map<uint64_t, file_queue> queues_ TND_GUARDED_BY(mutex_);
  // Keys of queues with a task that may begin.
  std::deque<uint64_t> ready_ TND_GUARDED_BY(mutex_);
  uint32_t thread_count_ TND_GUARDED_BY(mutex_) = 0;
  uint32_t idle_count_ TND_GUARDED_BY(mutex_) = 0;
  uint64_t last_start_ns_ TND_GUARDED_BY(mutex_) = 0;  // when a task last began
  bool is_stopping_ TND_GUARDED_BY(mutex_) = false;
};

}  // namespace tanada::seams
