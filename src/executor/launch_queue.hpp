// executor/launch_queue.hpp: launches in order, each spread over worker threads, one resident
// block a thread.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>

#include "core/base/mutex.hpp"
#include "executor/block.hpp"

namespace tanada::simt::host {

// What the environment says: read once, at the first launch. A value that does not parse aborts.
struct environment {
  u64 seed = 0;
  u32 preempt_permille = 0;
  u32 resident_blocks = 0;
};
const environment &environment_get();

class back_off;

class launch_queue {
 public:
  // The queue of the process. Never destroyed: a kernel may run while the process exits.
  static launch_queue &instance();

  void post(const grid_shape &shape, std::function<void()> kernel, u32 resident_blocks);
  bool wait(u64 deadline_ns) noexcept;

 private:
  struct pending {
    grid_shape shape;
    std::function<void()> kernel;
    u64 block_count;
    u64 rank;  // of the launch in the process
    u32 worker_count_max;
    std::atomic<u64> next_block{0};
    u32 worker_count = 0;  // guarded by mutex_
  };

  void worker_main();
  void run_blocks(pending &launch, block_runner &runner, random_source &random, back_off &idle);
  pending *find_work() noexcept;  // with mutex_ held
  void add_workers(u32 count);    // with mutex_ held

  mutex mutex_;  // guards all below
  condition_variable work_, done_;
  std::deque<std::unique_ptr<pending>> launches_;  // the first one runs
  u64 posted_count_ = 0, finished_count_ = 0;
  u32 worker_count_ = 0, idle_count_ = 0;
};

}  // namespace tanada::simt::host
