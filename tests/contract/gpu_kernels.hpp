// The kernels of the gpu contract, compiled for the host executor or for CUDA: gpu_kernels.cu.
#pragma once

#include <cstdint>

namespace tanada::port {

// values[i] = 3 * values[i] + i
void launch_arithmetic(uint64_t *values, uint64_t count);

// Raises *started, then waits until *go is not 0.
void launch_wait(uint32_t *started, uint32_t *go);

// Stores into memory that nobody has. CUDA only.
void launch_fault();

}  // namespace tanada::port
