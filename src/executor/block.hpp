// executor/block.hpp: one resident block: its lanes, their states and the scheduler that gives them
// turns. One thread at a time uses it, and its lanes run only on that thread.
#pragma once

#include <string>
#include <functional>
#include <memory>
#include <vector>

#include "executor/fiber.hpp"
#include <tanada/device/detail/simt/host/executor.hpp>

namespace tanada::simt::host {

inline constexpr u32 block_thread_count_max = 1024;
static_assert(block_thread_count_max % 32 == 0);

struct grid_shape {
  dim3 grid_size, block_size;
  u64 stack_size = 0;  // bytes for each lane
  u64 block_count() const {
    return u64(grid_size.x) * grid_size.y * grid_size.z;
  }
};

// Describes why no GPU supports these sizes; empty if they are valid.
std::string grid_shape_fault(const grid_shape &shape);

// The random numbers of one scheduler; xorshift64*.
class random_source {
 public:
  void seed(u64 value) noexcept;
  u64 next() noexcept;
  bool chance(u32 permille) noexcept {
    return permille != 0 && next() % 1000 < permille;
  }

 private:
  u64 state_ = 1;
};

// Scheduling rules of a thread, which apply to all its blocks.
struct schedule {
  random_source *random = nullptr;
  u32 preempt_permille = 0;                        // 0: lanes in order, no preemption
  const std::function<void()> *between = nullptr;  // hooks of run_inline; may be null
  const std::function<u64()> *clock = nullptr;
};

class block_runner {
 public:
  explicit block_runner(schedule rules) noexcept : rules_{rules} {}
  ~block_runner();
  block_runner(const block_runner &) = delete;

  // Load a block. The previous one must be finished.
  void start(const grid_shape &shape, u64 block_rank, const std::function<void()> &kernel);
  bool finished() const noexcept {
    return live_count_ == 0;
  }

  // Return the stacks to the pool. Only between blocks.
  void release_stacks() noexcept;

  // Give every runnable lane a turn. False: all of them only waited in spin loops. Aborts on a
  // deadlock.
  bool round();

  // Whether all lanes that spun in the last round wait for the host.
  bool waits_for_host() const noexcept {
    return other_pause_count_ == 0;
  }

  // Called by the running lane.
  void pause() noexcept;
  void pause_for_host() noexcept;
  void preempt() noexcept;
  void barrier() noexcept {
    arrive(barrier_kind::threads);
  }
  void group_barrier() noexcept {
    arrive(barrier_kind::group);
  }
  void expect_whole_warp() const noexcept;
  u32 exchange(u32 mask, u64 value, u64 *values) noexcept;
  void *storage(const void *key, u64 size, u64 alignment) noexcept;
  bool is_private(const void *addr) const noexcept;
  u64 read_clock() noexcept;

  // The block whose lane runs on the calling thread, or null.
  static block_runner *current() noexcept;

 private:
  struct lane {
    lane_ids ids;
    fiber *stack = nullptr;
    u64 *values = nullptr;  // receives the result of its current collective; may be null
    u32 mask = 0;           // mask of that collective
    u8 phase = 0;           // phase of the collectives of the group in which this lane is first
    char keys[2] = {};
  };
  struct warp {
    u32 live = 0, ready = 0, spinning = 0, at_barrier = 0,
        at_collective = 0;  // one bit for each lane; a live lane is either ready or at_*
    u32 started = 0;
    u32 existing = 0;
    u64 slots[32];
  };
  struct shared_variable {
    const void *key;
    char *addr;
  };
  struct storage_chunk {
    std::unique_ptr<char[]> bytes;
    u64 size, used;
  };

  enum class barrier_kind : u8 {
    threads,
    group
  };  // `threads`: for all live threads; `group`: for all threads of this_block

  static void lane_main(void *runner);
  void arrive(barrier_kind kind) noexcept;
  std::string call_names() const;
  [[noreturn]] void report_divergence(const char *group, const char *others) const noexcept;
  void finish_lane() noexcept;
  bool turn(u32 warp_index, u32 lane_index);
  bool warp_turns(u32 warp_index);
  void load_shape(const grid_shape &shape);
  void reset_warps() noexcept;
  fiber *stack_for(u32 linear);
  void switch_out() noexcept;
  void release_barrier() noexcept;
  void complete_collective(warp &w, u32 warp_index, u32 mask) noexcept;
  bool try_complete_collective(u32 warp_index, u32 mask) noexcept;
  [[noreturn]] void report_deadlock() const noexcept;

  schedule rules_;
  grid_shape shape_{};
  u64 block_rank_ = 0;
  dim3 block_index_{};
  const std::function<void()> *kernel_ = nullptr;
  u32 thread_count_ = 0, warp_count_ = 0;
  u32 live_count_ = 0, barrier_count_ = 0;
  barrier_kind barrier_kind_ =
      barrier_kind::threads;            // kind of the barrier at which barrier_count_ lanes wait
  const char *barrier_call_ = nullptr;  // the call of its first lane, see lane_ids::call
  u32 running_ = 0;                     // rank of the running lane
  u32 atomic_count_ = 0;                // atomics since its turn began
  u32 other_pause_count_ = 0;           // of this round: pauses that do not wait for the host
  fiber home_;
  std::vector<lane> lanes_;
  std::vector<warp> warps_;
  std::vector<fiber *> stacks_;  // free ones; with one_fiber_per_lane, indexed by lane
  std::vector<shared_variable> shared_;
  std::vector<storage_chunk> chunks_;
  // Addresses by which TSan orders lanes. Barriers alternate between two of them: a lane that has
  // already arrived at the next barrier must not be ordered before lanes that are still leaving
  // this one.
  char start_key_ = 0, end_key_ = 0, barrier_keys_[2] = {};
  u8 barrier_phase_ = 0;
};

}  // namespace tanada::simt::host
