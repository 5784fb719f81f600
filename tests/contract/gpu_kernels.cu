#include "contract/gpu_kernels.hpp"

#include <tanada/device/detail/simt/launch.hpp>
#include <tanada/device/detail/simt/thread.hpp>

namespace tanada::contract {
namespace {

TND_KERNEL void arithmetic(uint64_t *values, u64 count) {
  u64 const i = simt::global_thread_rank();
  if (i < count)
    values[i] = 3 * values[i] + i;
}

TND_KERNEL void wait(uint32_t *started, uint32_t *go) {
  simt::system_atomic<u32>(*started).store_release(1);
  while (simt::system_atomic<u32>(*go).load_acquire() == 0)
    simt::pause();
}

TND_KERNEL void fault(u32 *nowhere) {
  *nowhere = 1;
}

TND_KERNEL void add_ones(uint64_t *word, u32 rounds) {
  for (u32 i = 0; i < rounds; i++)
    simt::system_atomic<u64>(*reinterpret_cast<u64 *>(word)).fetch_add_relaxed(1);
}

TND_KERNEL void wait_for_value(const uint64_t *word,
                               uint64_t value,
                               uint32_t *gave_up,
                               u64 limit_ns) {
  u64 const start = simt::now_ns();
  auto &shared = *const_cast<u64 *>(reinterpret_cast<const u64 *>(word));
  while (simt::system_atomic<u64>(shared).load_acquire() != value) {
    if (simt::now_ns() - start > limit_ns) {
      simt::system_atomic<u32>(*gave_up).store_relaxed(1);
      return;
    }
    simt::pause();
  }
}

// One thread reads the flag, and then words that were written before it.
TND_KERNEL void read_behind_flag(const uint64_t *flag,
                                 const uint64_t *data,
                                 u32 count,
                                 litmus_result *result,
                                 u64 last,
                                 u64 limit_ns) {
  u64 const start = simt::now_ns();
  auto at = [](const uint64_t *word) {
    return simt::system_atomic<u64>(*const_cast<u64 *>(reinterpret_cast<const u64 *>(word)));
  };
  u64 seen = 0, rounds = 0, stale = 0;
  while (seen != last && simt::now_ns() - start < limit_ns) {
    seen = at(flag).load_acquire();
    for (u32 i = 0; i < count; i++)
      stale += at(data + i * 17).load_relaxed() < seen ? 1 : 0;
    rounds++;
    simt::pause(0);
  }
  result->rounds = rounds;
  result->stale = stale;
  simt::system_atomic<u64>(result->last_seen).store_release(seen);
}

}  // namespace

void launch_arithmetic(uint64_t *values, uint64_t count) {
  simt::launch(u32((count + 127) / 128), 128, arithmetic, values, count);
}

void launch_wait(uint32_t *started, uint32_t *go) {
  simt::launch(1, 1, wait, started, go);
}

void launch_add_ones(uint64_t *word, uint32_t threads, uint32_t rounds) {
  simt::launch(threads / 32, 32, add_ones, word, rounds);
}

void launch_wait_for_value(const full_grid &grid,
                           const uint64_t *word,
                           uint64_t value,
                           uint32_t *gave_up) {
  simt::launch(
      grid.blocks, grid.threads, wait_for_value, word, value, gave_up, u64{10'000'000'000});
}

void launch_read_behind_flag(const uint64_t *flag,
                             const uint64_t *data,
                             uint32_t count,
                             litmus_result *result,
                             uint64_t last) {
  simt::launch(1, 1, read_behind_flag, flag, data, count, result, last, u64{10'000'000'000});
}

void launch_fault() {
  simt::launch(1, 1, fault, reinterpret_cast<u32 *>(64));
}

}  // namespace tanada::contract
