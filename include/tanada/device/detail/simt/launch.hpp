// tanada/device/detail/simt/launch.hpp: start a kernel on CUDA's default stream or on the host
// executor. Asynchronous on both. Wait with ghandle() or tnd_gfile_wait(); without gfile, with
// simt::wait_for() of tanada/device/detail/simt/stream.hpp.
#pragma once

#include "../base/status.hpp"
#include "thread.hpp"

#if !TND_SIMT_RTC

namespace tanada::simt {

// The result of a launch. It may be ignored, since the next wait also reports a refusal.
struct launch_result {
  tanada::status status;  // ok: the kernel was queued. Otherwise it will not run.
};

#  if TND_SIMT_CUDA

using dim3 = ::dim3;

namespace host {
// Log the driver's reason for refusing a launch, and keep it until a caller waits for the kernels.
// Only the first reason is kept.
TND_HOST_API void refuse_launch(const char *why) noexcept;
}  // namespace host

// Distinguish a missing device or unusable driver from a launch that this device cannot take.
inline status refusal_status(cudaError_t refused) {
  switch (refused) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return status::no_device;
    default:
      return status::invalid;
  }
}

// A stream orders kernels. {} is the default stream.
using stream = cudaStream_t;

// A launch that the driver refuses is visible in cudaGetLastError(), like the program's own
// launches.

template <class... Parameters, class... Arguments>
void launch_on(stream on,
               dim3 grid_size,
               dim3 block_size,
               void (*kernel)(Parameters...),
               Arguments... arguments) {
  kernel<<<grid_size, block_size, 0, on>>>(static_cast<Parameters>(arguments)...);
}

// As launch_on(); returns false if the driver refuses.
template <class... Parameters, class... Arguments>
bool try_launch_on(stream on,
                   dim3 grid_size,
                   dim3 block_size,
                   void (*kernel)(Parameters...),
                   Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid_size;
  config.blockDim = block_size;
  config.stream = on;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...) == cudaSuccess;
}

// If the driver refuses, the status is no_device (no GPU, or no driver for it) or invalid (too many
// threads for the kernel's registers, no code for the GPU). The driver's text is logged and stored
// for tnd_last_message(). The next tnd_gfile_wait() or ghandle() returns -EINVAL with the same
// text.
template <class... Parameters, class... Arguments>
launch_result launch(dim3 grid_size,
                     dim3 block_size,
                     void (*kernel)(Parameters...),
                     Arguments... arguments) {
  launch_on(stream{}, grid_size, block_size, kernel, arguments...);
  cudaError_t const refused = cudaGetLastError();
  if (refused == cudaSuccess)
    return {status::ok};
  host::refuse_launch(cudaGetErrorString(refused));
  return {refusal_status(refused)};
}

#  else

// The status is invalid for sizes that no GPU accepts.
template <class... Parameters, class... Arguments>
launch_result launch(dim3 grid_size,
                     dim3 block_size,
                     void (*kernel)(Parameters...),
                     Arguments... arguments) {
  bool const is_queued =
      host::launch(grid_size, block_size, [=] { kernel(static_cast<Parameters>(arguments)...); });
  return {is_queued ? status::ok : status::invalid};
}

// The host executor has one stream.
struct stream {};

template <class... Parameters, class... Arguments>
void launch_on(stream,
               dim3 grid_size,
               dim3 block_size,
               void (*kernel)(Parameters...),
               Arguments... arguments) {
  (void)launch(grid_size, block_size, kernel, arguments...);
}
template <class... Parameters, class... Arguments>
bool try_launch_on(stream,
                   dim3 grid_size,
                   dim3 block_size,
                   void (*kernel)(Parameters...),
                   Arguments... arguments) {
  return launch(grid_size, block_size, kernel, arguments...).status == status::ok;
}

#  endif

}  // namespace tanada::simt

#endif
