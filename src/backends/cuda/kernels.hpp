// backends/cuda/kernels.hpp: the kernels of this plugin, for its host code.
#pragma once

#include <cuda_runtime.h>

#include "backends/cuda/command.hpp"

namespace tanada::backends::cuda {

// One run of the service kernel.
struct service_run {
  ring_memory *ring;
  uint32_t generation;
  uint32_t first;    // sequence
  uint32_t idle_ns;  // the run ends after this time without a command
};
static_assert(sizeof(service_run) == 24);

// Loads the kernels' code onto the current device. Later, loading might have to wait for kernels of
// the program.
cudaError_t load_kernels();

cudaError_t launch_service(cudaStream_t stream, const service_run &run);

// Carries out a command by a separate kernel instead of the service kernel. `before`: pinned memory
// for the old value, or null.
cudaError_t launch_update(cudaStream_t stream, const command &request, uint64_t *before);
cudaError_t launch_rows(cudaStream_t stream, const command &request);

}  // namespace tanada::backends::cuda
