// tanada/device/detail/simt/host/executor.hpp: kernels on the CPU. A std::thread for each resident
// block, a fiber for each lane. Barriers and warp collectives are real; spin loops yield to the
// other lanes. If every live lane of a block waits at a barrier or collective that cannot complete,
// the executor reports a deadlock and aborts the process: the kernel has a bug.
//
// Plain g++/clang++ only, x86-64 and aarch64. Environment: TND_SIMT_SEED and
// TND_SIMT_PREEMPT_PERMILLE preempt lanes at atomics, from a seed. TND_SIMT_RESIDENT_BLOCKS sets
// how many blocks run at once (default: the number of processors, at least 4).
#pragma once

#include "../config.hpp"

#include <functional>

namespace tanada::simt {

struct dim3 {
  u32 x, y, z;
  constexpr dim3(u32 size_x = 1, u32 size_y = 1, u32 size_z = 1)
      : x(size_x), y(size_y), z(size_z) {}
};

}  // namespace tanada::simt

namespace tanada::simt::host {

struct lane_ids {
  dim3 thread, block, block_size, grid_size;
  u32 linear;                          // thread's rank in its block
  mutable const char *call = nullptr;  // the collective call that the thread makes, for messages
};

// For kernels; valid only inside a kernel.
extern TND_HOST_API __thread const lane_ids *current_ids [[gnu::tls_model("initial-exec")]];
inline const lane_ids &ids() noexcept {
  return *current_ids;
}
TND_HOST_API void block_barrier() noexcept;  // every live thread of the block
// A collective of this_block: every thread of the block calls it, and none has returned or waits at
// a block_barrier(). Otherwise it reports the fault and aborts, where a GPU would continue with
// some of the threads.
TND_HOST_API void block_group_barrier() noexcept;
// For a collective of this_warp: reports the fault and aborts if a thread of the warp has returned.
TND_HOST_API void expect_whole_warp() noexcept;
TND_HOST_API void warp_barrier(u32 mask) noexcept;  // every live lane of `mask`
// Publish `value` for this lane, wait for `mask`, copy all values out, wait again. Returns the
// participating lanes.
TND_HOST_API u32 warp_exchange(u32 mask, u64 value, u64 values[32]) noexcept;
TND_HOST_API u64 now_ns() noexcept;  // CLOCK_MONOTONIC, or the simulation's clock
// Copy up to `size` bytes of a file: those from the first one on that are in the page cache.
// Returns how many; never waits for a disk.
TND_HOST_API u64 read_cached(int descriptor, void *target, u64 size, u64 offset) noexcept;

// True for memory of the running lane's stack or of its block's shared variables. False outside a
// kernel.
TND_HOST_API bool is_private(const void *addr) noexcept;

// For any code, inside or outside a kernel.
inline bool in_kernel() noexcept {
  return current_ids != nullptr;
}
TND_HOST_API void
pause() noexcept;  // a step of a spin loop: other lanes run; outside a kernel: sched_yield
TND_HOST_API void preemption_point() noexcept;  // called by every atomic

// A step of a loop that waits for what the host stores before wake_kernels(). Where all lanes of
// the block only wait so, its thread sleeps until then, or for a fifth of a millisecond.
TND_HOST_API void pause_for_host() noexcept;
TND_HOST_API void wake_kernels() noexcept;
// Called after a kernel has stored what the host polls for: a thread that serves kernels may sleep.
TND_HOST_API void wake_host() noexcept;

struct launch_options {
  u32 resident_blocks = 0;     // 0: from the environment, or the default
  u64 stack_size = 64 * 1024;  // bytes for each lane
};

// Queue a launch. Launches run one after the other on a thread of their own, as on CUDA's default
// stream. Returns false for sizes that no GPU takes (0, or more than 1024 threads a block): see
// refuse_launch() in tanada/device/detail/simt/launch.hpp.
TND_HOST_API bool launch(dim3 grid_size,
                         dim3 block_size,
                         std::function<void()> kernel,
                         launch_options options = {});

// Wait until every launch queued so far has finished. Returns false if `deadline_ns`
// (CLOCK_MONOTONIC) passes first.
TND_HOST_API bool synchronize(u64 deadline_ns) noexcept;

// For simulations: run a whole grid in the calling thread, with all randomness from `seed`. The
// scheduler may call `between_turns` between any two lanes' turns, so that the host side of a
// protocol runs in the same thread. It always calls it once for each round over the lanes.
// `clock_ns` replaces the clock.
struct inline_options {
  u64 seed = 0;
  u32 preempt_permille = 200;
  u32 resident_blocks = 4;
  u64 stack_size = 64 * 1024;
  std::function<void()> between_turns;
  std::function<u64()> clock_ns;
};
TND_HOST_API void run_inline(dim3 grid_size,
                             dim3 block_size,
                             const std::function<void()> &kernel,
                             const inline_options &options);

}  // namespace tanada::simt::host
