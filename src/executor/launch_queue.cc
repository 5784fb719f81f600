// Worker threads of the host executor, which run the blocks of queued launches.
#include "executor/launch_queue.hpp"

#include <sys/prctl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "executor/event.hpp"
#include "executor/sanitizer.hpp"
#include "executor/yield.hpp"

namespace tanada::simt::host {
namespace {

constexpr u32 resident_blocks_max = 1024;
// TSan counts fibers as threads and supports 8128 of them.
constexpr u32 fiber_count_max = 6000;
static_assert(fiber_count_max >= block_thread_count_max);  // one block is resident at least

u32 resident_blocks_default() {
  u32 const processors = std::thread::hardware_concurrency();
  return processors > 4 ? processors : 4;
}

u32 resident_blocks_limit(u32 requested, const grid_shape &shape) {
  u32 const threads = shape.block_size.x * shape.block_size.y * shape.block_size.z;
  u32 const limit = one_fiber_per_lane ? fiber_count_max / threads : resident_blocks_max;
  return requested < limit ? requested : limit;
}

void environment_number(const char *name, u64 low, u64 high, u32 &value) {
  uint32_t number = value;
  if (environment_count(name, low, high, number) != status::ok) {
    std::fprintf(stderr, "tanada: %s\n", last_message().c_str());
    std::abort();
  }
  value = number;
}

environment environment_read() {
  environment created;
  u32 seed = 0;
  environment_number("TND_SIMT_SEED", 0, 0xffffffffu, seed);
  created.seed = seed;
  created.preempt_permille = std::getenv("TND_SIMT_SEED") != nullptr ? 200 : 0;
  environment_number("TND_SIMT_PREEMPT_PERMILLE", 0, 1000, created.preempt_permille);
  created.resident_blocks = resident_blocks_default();
  environment_number("TND_SIMT_RESIDENT_BLOCKS", 1, resident_blocks_max, created.resident_blocks);
  return created;
}

}  // namespace

// Backoff for a block in which every lane spins: first yield to other threads, then sleep for
// increasing times.
class backoff {
 public:
  void progress() noexcept {
    idle_rounds_ = 0;
  }
  // As wait(), for a block that waits for the host: `ticket` of kernel_event() is older than its
  // last look.
  void wait_for_host(u32 ticket) {
    if (idle_rounds_++ < host_yield_rounds && yielder_.yield())
      return;
    kernel_event().wait(ticket, sleep_us_max * 1000);
  }
  void wait() {
    if (idle_rounds_++ < yield_rounds) {
      if (yielder_.yield())
        return;
      idle_rounds_ = yield_rounds;
    }
    u32 const doublings = (idle_rounds_ - yield_rounds) / 4;
    u64 const sleep_us = doublings >= 6 ? sleep_us_max : u64(sleep_us_min) << doublings;
    std::this_thread::sleep_for(std::chrono::microseconds(sleep_us));
  }

 private:
  static constexpr u32 yield_rounds = 64, host_yield_rounds = 8;
  static constexpr u64 sleep_us_min = 4, sleep_us_max = 200;
  u32 idle_rounds_ = 0;
  yielder yielder_;
};

const environment &environment_get() {
  static environment const instance = environment_read();
  return instance;
}

launch_queue &launch_queue::instance() {
  // TSan does not see the guard variable of `queue` in code that it did not instrument
  static char key;
  static launch_queue &queue = *[] {
    auto *const created = new launch_queue;
    release_edge(&key);
    return created;
  }();
  acquire_edge(&key);
  return queue;
}

void launch_queue::add_workers(u32 count) {
  TND_ASSERT(mutex_.is_held());
  for (; worker_count_ < count; worker_count_++)
    std::thread([this] { worker_main(); }).detach();
}

void launch_queue::post(const grid_shape &shape,
                        std::function<void()> kernel,
                        u32 resident_blocks) {
  auto launch = std::make_unique<launch_record>();
  launch->shape = shape;
  launch->kernel = std::move(kernel);
  launch->block_count = shape.block_count();
  u32 const limit = resident_blocks_limit(resident_blocks, shape);
  launch->worker_count_max = launch->block_count < limit ? u32(launch->block_count) : limit;
  TND_ASSERT(launch->worker_count_max != 0);
  lock_guard const lock{mutex_};
  add_workers(launch->worker_count_max);
  launch->rank = posted_count_++;
  u32 const wanted_count = launch->worker_count_max;
  launches_.push_back(std::move(launch));
  if (launches_.size() > 1)
    return;  // the worker that finishes the current launch starts the next one
  for (u32 i = 0; i < wanted_count && i < idle_count_; i++)
    work_.notify_one();
}

bool launch_queue::wait(u64 deadline_ns) noexcept {
  unique_lock lock{mutex_};
  u64 const goal = posted_count_;
  auto const reached = [&] {
    mutex_.assert_held();
    return finished_count_ >= goal;
  };
  if (deadline_ns > u64(INT64_MAX)) {
    done_.wait(lock, reached);
    return true;
  }
  std::chrono::steady_clock::time_point const deadline{std::chrono::nanoseconds(deadline_ns)};
  return done_.wait_until(lock, deadline, reached);
}

launch_queue::launch_record *launch_queue::find_work() noexcept {
  TND_ASSERT(mutex_.is_held());
  if (launches_.empty())
    return nullptr;
  launch_record &first = *launches_.front();
  bool const needs_workers = first.worker_count < first.worker_count_max &&
                             first.next_block.load(std::memory_order_relaxed) < first.block_count;
  return needs_workers ? &first : nullptr;
}

void launch_queue::run_blocks(launch_record &launch,
                              block_runner &runner,
                              random_source &random,
                              backoff &idle) {
  const environment &settings = environment_get();
  for (;;) {
    u64 const block = launch.next_block.fetch_add(1, std::memory_order_relaxed);
    if (block >= launch.block_count)
      return;
    random.seed(settings.seed * 0x100000001b3ull + launch.rank * 0x10001 + block);
    runner.start(launch.shape, block, launch.kernel);
    idle.progress();
    while (!runner.finished()) {
      u32 const ticket = kernel_event().ticket();
      if (runner.round())
        idle.progress();
      else if (runner.waits_for_host())
        idle.wait_for_host(ticket);
      else
        idle.wait();
    }
  }
}

void launch_queue::worker_main() {
  (void)prctl(PR_SET_TIMERSLACK, 1000);  // the default of 50 us would dominate the short sleeps
  random_source random;
  schedule rules;
  rules.random = &random;
  rules.preempt_permille = environment_get().preempt_permille;
  block_runner runner{rules};
  backoff idle;
  unique_lock lock{mutex_};
  for (;;) {
    launch_record *const launch = find_work();
    if (launch == nullptr) {
      idle_count_++;
      work_.wait(lock);
      idle_count_--;
      continue;
    }
    launch->worker_count++;
    lock.unlock();
    run_blocks(*launch, runner, random, idle);
    // so that idle workers hold none of the few fibers that TSan supports
    if (one_fiber_per_lane)
      runner.release_stacks();
    lock.lock();
    TND_ASSERT(launch->worker_count != 0 && launches_.front().get() == launch);
    if (--launch->worker_count != 0)
      continue;
    // This is the last worker of the launch. No other worker joins it, since no block is left.
    auto const finished = std::move(launches_.front());
    launches_.pop_front();
    finished_count_++;
    done_.notify_all();
    if (!launches_.empty())
      for (u32 i = 1; i < launches_.front()->worker_count_max && i <= idle_count_; i++)
        work_.notify_one();
  }
}

}  // namespace tanada::simt::host
