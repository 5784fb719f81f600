// executor/launch_queue.hpp: runs launches in order, each on several worker threads, with one
// resident block for each thread.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>

#include "core/base/mutex.hpp"
#include "executor/block.hpp"

namespace tanada::simt::host {

// Settings from the environment, read once at the first launch. An invalid value aborts the
// process.
struct environment {
  u64 seed = 0;
  u32 preempt_permille = 0;
  u32 resident_blocks = 0;
};
const environment &environment_get();

class backoff;

class launch_queue {
 public:
  // The queue of the process. It is never destroyed, because a kernel may run while the process
  // exits.
  static launch_queue &instance();

  void post(const grid_shape &shape, std::function<void()> kernel, u32 resident_blocks);
  bool wait(u64 deadline_ns) noexcept;

 private:
  struct launch_record {
    grid_shape shape;
    std::function<void()> kernel;
    u64 block_count;
    u64 rank;  // index of the launch in the process
    u32 worker_count_max;
    std::atomic<u64> next_block{0};
    u32 worker_count = 0;  // guarded by the queue's mutex_
  };

  void worker_main();
  void run_blocks(launch_record &launch,
                  block_runner &runner,
                  random_source &random,
                  backoff &idle);
  launch_record *find_work() noexcept TND_REQUIRES(mutex_);
  void add_workers(u32 count) TND_REQUIRES(mutex_);

  mutex mutex_;
  condition_variable work_, done_;
  // The first one is running.
  std::deque<std::unique_ptr<launch_record>> launches_ TND_GUARDED_BY(mutex_);
  u64 posted_count_ TND_GUARDED_BY(mutex_) = 0;
  u64 finished_count_ TND_GUARDED_BY(mutex_) = 0;
  u32 worker_count_ TND_GUARDED_BY(mutex_) = 0;
  u32 idle_count_ TND_GUARDED_BY(mutex_) = 0;
};

}  // namespace tanada::simt::host
