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
namespace {

// The block whose lane calls. Only kernels make these calls.
block_runner &running_block() noexcept {
  block_runner *const runner = block_runner::current();
  TND_ASSERT(runner != nullptr);
  return *runner;
}

// The resident blocks of run_inline(), which take turns in the calling thread.
class inline_grid {
 public:
  inline_grid(const grid_shape &shape, const schedule &rules, const std::function<void()> &kernel)
      : shape_{shape}, rules_{rules}, kernel_{kernel}, block_count_{shape.block_count()} {}

  void start(u64 resident) {
    for (; next_block_ < block_count_ && next_block_ < resident; running_count_++) {
      runners_.push_back(std::make_unique<block_runner>(rules_));
      runners_.back()->start(shape_, next_block_++, kernel_);
    }
  }
  bool is_running() const noexcept {
    return running_count_ != 0;
  }

  // Gives each block a round. A block that has finished makes room for the next one.
  void round() {
    u64 const count = runners_.size();
    u64 const first = rules_.preempt_permille != 0 ? rules_.random->next() % count : 0;
    for (u64 i = 0; i < count; i++) {
      block_runner &runner = *runners_[(first + i) % count];
      if (runner.finished())
        continue;
      (void)runner.round();
      if (runner.finished())
        replace(runner);
    }
  }

 private:
  void replace(block_runner &runner) {
    TND_ASSERT(running_count_ != 0);
    if (next_block_ < block_count_)
      runner.start(shape_, next_block_++, kernel_);
    else
      running_count_--;
  }

  grid_shape const shape_;
  schedule const rules_;
  const std::function<void()> &kernel_;
  u64 const block_count_;
  u64 next_block_ = 0, running_count_ = 0;
  std::vector<std::unique_ptr<block_runner>> runners_;
};

}  // namespace

void block_barrier() noexcept {
  running_block().barrier();
}

void block_group_barrier() noexcept {
  running_block().group_barrier();
}

void expect_whole_warp() noexcept {
  running_block().expect_whole_warp();
}

void warp_barrier(u32 mask) noexcept {
  (void)running_block().exchange(mask, 0, nullptr);
}

u32 warp_exchange(u32 mask, u64 value, u64 values[32]) noexcept {
  return running_block().exchange(mask, value, values);
}

bool is_private(const void *addr) noexcept {
  const block_runner *const runner = block_runner::current();
  return runner != nullptr && runner->is_private(addr);
}

void *block_storage(const void *key, u64 size, u64 alignment) noexcept {
  return running_block().storage(key, size, alignment);
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

void pause_for_host() noexcept {
  if (block_runner *const runner = block_runner::current())
    runner->pause_for_host();
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

void run_inline(dim3 grid_size,
                dim3 block_size,
                const std::function<void()> &kernel,
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

  inline_grid grid{shape, rules, kernel};
  grid.start(options.resident_blocks != 0 ? options.resident_blocks : 1);
  while (grid.is_running()) {
    grid.round();
    if (options.between_turns)
      options.between_turns();
  }
}

}  // namespace tanada::simt::host
