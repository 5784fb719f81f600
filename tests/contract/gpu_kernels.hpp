// The kernels of the gpu contract, compiled for the host executor or for CUDA: gpu_kernels.cu.
#pragma once

#include <cstdint>

namespace tanada::contract {

// values[i] = 3 * values[i] + i
void launch_arithmetic(uint64_t *values, uint64_t count);

// Raises *started, then waits until *go is not 0.
void launch_wait(uint32_t *started, uint32_t *go);

// Each of so many threads, a multiple of 32, adds 1 so many times.
void launch_add_ones(uint64_t *word, uint32_t threads, uint32_t rounds);

struct full_grid {
  uint32_t blocks, threads;  // a block
};
// Every thread waits until *word is `value`; raises *gave_up after 10 s.
void launch_wait_for_value(const full_grid &grid,
                           const uint64_t *word,
                           uint64_t value,
                           uint32_t *gave_up);

struct litmus_result {
  unsigned long long last_seen, rounds, stale;
};
// Until *flag is `last`, or for 10 s: how often a word, 17 * 8 bytes apart, was older than a flag
// that was read before it.
void launch_read_behind_flag(const uint64_t *flag,
                             const uint64_t *data,
                             uint32_t count,
                             litmus_result *result,
                             uint64_t last);

// Stores into memory that nobody has. CUDA only.
void launch_fault();

}  // namespace tanada::contract
