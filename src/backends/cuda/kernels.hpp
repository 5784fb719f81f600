// backends/cuda/kernels.hpp: the kernels of this plugin, for its host code.
#pragma once

#include <cuda_runtime.h>

#include "backends/cuda/command.hpp"

namespace tanada::port::cuda {

// One run of the service kernel.
struct service_run {
  ring_memory *ring;
  uint32_t generation;
  uint32_t first;    // sequence
  uint32_t idle_ns;  // it ends when nothing has come for so long
};

// Gets their code onto the current device: later that could have to wait for kernels of the
// program.
cudaError_t load_kernels();

cudaError_t launch_service(cudaStream_t stream, const service_run &run);

// What the service kernel does for such a command, by a kernel of its own. `before`: pinned memory,
// or null.
cudaError_t launch_update(cudaStream_t stream, const command &what, uint64_t *before);
cudaError_t launch_rows(cudaStream_t stream, const command &what);

}  // namespace tanada::port::cuda
