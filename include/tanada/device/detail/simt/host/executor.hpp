// tanada/device/detail/simt/host/executor.hpp: kernels on the CPU. A std::thread a resident block,
// a fiber a lane; barriers and warp collectives are real; spin loops yield to the other lanes; a
// block whose every live lane waits at a barrier or collective that cannot complete is reported as
// a deadlock and the process aborts (a bug in the kernel).
//
// Plain g++/clang++ only, x86-64 and aarch64. Environment: TND_SIMT_SEED and
// TND_SIMT_PREEMPT_PERMILLE preempt lanes at atomics, seeded; TND_SIMT_RESIDENT_BLOCKS sets how
// many blocks run at once (default: the number of processors, at least 4).
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
  u32 linear;  // thread's rank in its block
};

// What kernels use; valid inside a kernel only.
extern TND_HOST_API __thread const lane_ids *current_ids [[gnu::tls_model("initial-exec")]];
inline const lane_ids &ids() noexcept {
  return *current_ids;
}
TND_HOST_API void block_barrier() noexcept;  // every live thread of the block
// A collective of this_block: every thread of the block, none of which has returned or waits at a
// block_barrier(). Reports and aborts otherwise, where a GPU would go on with some of the threads.
TND_HOST_API void block_group_barrier() noexcept;
// For a collective of this_warp: reports and aborts if a thread of the warp has returned.
TND_HOST_API void expect_whole_warp() noexcept;
TND_HOST_API void warp_barrier(u32 mask) noexcept;  // every live lane of `mask`
// Publishes `value` for this lane, waits for `mask`, copies all values out, waits again. Returns
// the lanes that took part.
TND_HOST_API u32 warp_exchange(u32 mask, u64 value, u64 values[32]) noexcept;
TND_HOST_API u64 now_ns() noexcept;  // CLOCK_MONOTONIC, or the simulation's clock
// Up to `size` bytes of a file, as far as they are in memory from the first one on. Returns how
// many; does not wait for a disk.
TND_HOST_API u64 read_cached(int descriptor, void *target, u64 size, u64 offset) noexcept;

// Memory of the running lane's stack, or of its block's shared variables. Outside a kernel: no.
TND_HOST_API bool is_private(const void *addr) noexcept;

// What anybody may use.
inline bool in_kernel() noexcept {
  return current_ids != nullptr;
}
TND_HOST_API void
pause() noexcept;  // a step of a spin loop: other lanes run; outside a kernel: sched_yield
TND_HOST_API void preemption_point() noexcept;  // called by every atomic

struct launch_options {
  u32 resident_blocks = 0;     // 0: the environment's or the default
  u64 stack_size = 64 * 1024;  // bytes a lane
};

// Queue a launch; launches run one after the other on a thread of their own, as on CUDA's default
// stream. Sizes that no GPU takes (0, or more than 1024 threads a block) are refused: see
// refuse_launch() in tanada/device/detail/simt/launch.hpp. Returns false for those.
TND_HOST_API bool launch(dim3 grid_size, dim3 block_size, std::function<void()> kernel,
                         launch_options options = {});

// Wait until every launch queued so far has finished. False if `deadline_ns` (CLOCK_MONOTONIC)
// passes first.
TND_HOST_API bool synchronize(u64 deadline_ns) noexcept;

// For simulations: run a whole grid in the calling thread, all randomness from `seed`. Between any
// two lanes' turns the scheduler may call `between` (so that the host side of a protocol makes its
// steps in the same thread) and always does so once a round over the lanes. `now` stands in for the
// clock.
struct inline_options {
  u64 seed = 0;
  u32 preempt_permille = 200;
  u32 resident_blocks = 4;
  u64 stack_size = 64 * 1024;
  std::function<void()> between;
  std::function<u64()> now;
};
TND_HOST_API void run_inline(dim3 grid_size, dim3 block_size, const std::function<void()> &kernel,
                             const inline_options &options);

}  // namespace tanada::simt::host
