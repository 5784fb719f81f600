// seams/store/worker_pool.hpp: the threads behind blocking_store.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <unordered_map>

#include "core/base/mutex.hpp"
#include "seams/store/blocking_store.hpp"

namespace tanada::port {

// Completions on their way from the workers to one queue. Thread-safe.
class completion_list {
 public:
  void push(store_completion completion);
  size_t take(std::span<store_completion> completions);

 private:
  friend class worker_pool;
  mutex mutex_;
  std::deque<store_completion> done_;
  std::atomic<size_t> count_{0};
  uint32_t running_ = 0;  // operations inside the engine; guarded by the pool's mutex
};

// Threads that run operations. Operations of one file share a lane, and a lane gives work to a
// bounded number of threads at a time: a file that stalls holds no more than those. Threads own a
// reference to the pool, so that a stuck one can be left behind.
//
// Locking: mutex_ guards everything but the engine and the lists; it is never held during a call of
// the engine.
class worker_pool : public std::enable_shared_from_this<worker_pool> {
 public:
  worker_pool(std::shared_ptr<blocking_engine> engine, blocking_limits limits)
      : engine_{std::move(engine)}, limits_{limits} {}

  const char *scheme() const noexcept {
    return engine_->scheme();
  }

  // again when there is no thread and none can be started.
  status submit(store_op op, std::shared_ptr<completion_list> target);

  // Complete timed_out what `target` waits for past its deadline, and start a thread if all seem to
  // be stuck.
  void tend(completion_list &target, uint64_t now_ns);

  // Drop what waits for `target` and wait for what runs. False: something still runs after
  // abandon_ns.
  bool drain(completion_list &target);

  // No thread takes work any more. False: some are still inside the engine after abandon_ns.
  bool stop();

 private:
  struct task {
    store_op op;
    std::shared_ptr<completion_list> target;
  };
  struct lane {
    std::deque<task> tasks;
    uint32_t busy = 0;
    bool queued = false;  // in ready_
  };

  static uint64_t lane_of(const store_op &op);
  void work();
  void run_one(unique_lock<mutex> &lock);
  void queue_lane(uint64_t key, lane &which);
  bool start_thread();
  template <class Wanted>
  std::deque<task> take_waiting(Wanted wanted);

  std::shared_ptr<blocking_engine> engine_;
  const blocking_limits limits_;
  mutex mutex_;
  condition_variable wake_, calm_;
  std::unordered_map<uint64_t, lane> lanes_;
  std::deque<uint64_t> ready_;  // keys of lanes with a task that may begin
  uint32_t live_ = 0, idle_ = 0;
  uint64_t began_ns_ = 0;  // when a task was begun last
  bool stopping_ = false;
};

}  // namespace tanada::port
