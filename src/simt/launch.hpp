// simt/launch.hpp: start a kernel, on CUDA's default stream or on the host executor. Asynchronous on both: wait
// with ghandle(), tnd_gfile_wait() or simt::synchronize().
#pragma once

#include "thread.hpp"

#if !TND_SIMT_RTC

namespace tanada::simt {

#if TND_SIMT_CUDA

using dim3 = ::dim3;

namespace host {
// Keep why the driver refused a launch until somebody waits for the kernels. The first reason stays.
TND_HOST_API void refuse_launch(const char *why) noexcept;
}  // namespace host

// What orders kernels. {} is the default one.
using stream = cudaStream_t;

// A launch that the driver refuses shows in cudaGetLastError(), as the program's own do.

template <class... Parameters, class... Arguments>
void launch_on(stream on, dim3 grid_size, dim3 block_size, void (*kernel)(Parameters...), Arguments... arguments) {
  kernel<<<grid_size, block_size, 0, on>>>(static_cast<Parameters>(arguments)...);
}

// The same; false: the driver refuses.
template <class... Parameters, class... Arguments>
bool try_launch_on(stream on, dim3 grid_size, dim3 block_size, void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid_size;
  config.blockDim = block_size;
  config.stream = on;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...) == cudaSuccess;
}

// A launch that the driver refuses (too many threads for the kernel's registers, no code for the GPU) shows at the next
// wait: tnd_gfile_wait() and ghandle() return -EINVAL with the driver's words.
template <class... Parameters, class... Arguments>
void launch(dim3 grid_size, dim3 block_size, void (*kernel)(Parameters...), Arguments... arguments) {
  launch_on(stream{}, grid_size, block_size, kernel, arguments...);
  if (cudaError_t const refused = cudaGetLastError(); refused != cudaSuccess)
    host::refuse_launch(cudaGetErrorString(refused));
}

#else

template <class... Parameters, class... Arguments>
void launch(dim3 grid_size, dim3 block_size, void (*kernel)(Parameters...), Arguments... arguments) {
  host::launch(grid_size, block_size, [=] { kernel(static_cast<Parameters>(arguments)...); });
}

// There is one.
struct stream {};

template <class... Parameters, class... Arguments>
void launch_on(stream, dim3 grid_size, dim3 block_size, void (*kernel)(Parameters...), Arguments... arguments) {
  launch(grid_size, block_size, kernel, arguments...);
}
template <class... Parameters, class... Arguments>
bool try_launch_on(stream on, dim3 grid_size, dim3 block_size, void (*kernel)(Parameters...), Arguments... arguments) {
  launch_on(on, grid_size, block_size, kernel, arguments...);
  return true;
}

#endif

}  // namespace tanada::simt

#endif
