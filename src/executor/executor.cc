// The public functions of the host executor, which forward to the running block or the launch
// queue.
#include <tanada/device/detail/simt/host/executor.hpp>

#include <sched.h>

#include <ctime>
#include <memory>
#include <vector>

#include "core/base/assert.hpp"
#include "executor/block.hpp"
#include "executor/launch_queue.hpp"
#include "executor/launch_refusal.hpp"

namespace tanada::simt::host {

void block_barrier() noexcept {
  block_runner::current()->barrier();
}

void block_group_barrier() noexcept {
  block_runner::current()->group_barrier();
}

void expect_whole_warp() noexcept {
  block_runner::current()->expect_whole_warp();
}

void warp_barrier(u32 mask) noexcept {
  (void)block_runner::current()->exchange(mask, 0, nullptr);
}

u32 warp_exchange(u32 mask, u64 value, u64 values[32]) noexcept {
  return block_runner::current()->exchange(mask, value, values);
}

bool is_private(const void *addr) noexcept {
  const block_runner *const runner = block_runner::current();
  return runner != nullptr && runner->is_private(addr);
}

void *block_storage(const void *key, u64 size, u64 alignment) noexcept {
  return block_runner::current()->storage(key, size, alignment);
}

u64 now_ns() noexcept {
  if (block_runner *const runner = block_runner::current())
    return runner->read_clock();
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return u64(time.tv_sec) * 1000000000ull + u64(time.tv_nsec);
}

void pause() noexcept {
  if (block_runner *const runner = block_runner::current())
    runner->pause();
  else
    sched_yield();
}

void preemption_point() noexcept {
  if (block_runner *const runner = block_runner::current())
    runner->preempt();
}

bool launch(dim3 grid_size, dim3 block_size, std::function<void()> kernel, launch_options options) {
  TND_ASSERT(!in_kernel());
  grid_shape const shape{grid_size, block_size, options.stack_size};
  if (std::string const fault = grid_shape_fault(shape); !fault.empty()) {
    refuse_launch(fault.c_str());
    return false;
  }
  u32 const resident =
      options.resident_blocks != 0 ? options.resident_blocks : environment_get().resident_blocks;
  launch_queue::instance().post(shape, std::move(kernel), resident);
  return true;
}

bool synchronize(u64 deadline_ns) noexcept {
  TND_ASSERT(!in_kernel());
  return launch_queue::instance().wait(deadline_ns);
}

void run_inline(dim3 grid_size, dim3 block_size, const std::function<void()> &kernel,
                const inline_options &options) {
  TND_ASSERT(!in_kernel());
  grid_shape const shape{grid_size, block_size, options.stack_size};
  TND_ASSERT(grid_shape_fault(shape).empty());
  random_source random;
  random.seed(options.seed);
  schedule rules;
  rules.random = &random;
  rules.preempt_permille = options.preempt_permille;
  if (options.between_turns)
    rules.between = &options.between_turns;
  if (options.clock_ns)
    rules.clock = &options.clock_ns;

  u64 const block_count = shape.block_count();
  u64 const resident = options.resident_blocks != 0 ? options.resident_blocks : 1;
  std::vector<std::unique_ptr<block_runner>> runners;
  u64 next_block = 0, running = 0;
  for (; next_block < block_count && next_block < resident; next_block++, running++) {
    runners.push_back(std::make_unique<block_runner>(rules));
    runners.back()->start(shape, next_block, kernel);
  }
  while (running != 0) {
    u64 const first = options.preempt_permille != 0 ? random.next() % runners.size() : 0;
    for (u64 i = 0; i < runners.size(); i++) {
      block_runner &runner = *runners[(first + i) % runners.size()];
      if (runner.finished())
        continue;
      (void)runner.round();
      if (!runner.finished())
        continue;
      if (next_block < block_count)
        runner.start(shape, next_block++, kernel);
      else
        running--;
    }
    if (options.between_turns)
      options.between_turns();
  }
}

}  // namespace tanada::simt::host
