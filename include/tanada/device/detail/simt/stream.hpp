// tanada/device/detail/simt/stream.hpp: streams for code that compiles no kernels, named by the
// pointer that CUDA's driver and every language use.
#pragma once

#include "launch.hpp"

#if !TND_SIMT_RTC

namespace tanada::simt {

#  if TND_SIMT_CUDA

inline stream stream_at(void *handle) {
  return static_cast<stream>(handle);
}
// The error of this thread's launches since the last call: 0, or the driver's number for the
// refusal.
inline int launch_error() {
  return int(cudaGetLastError());
}
// Returns 0, or the driver's error number. There is no timeout.
inline int wait_for(stream on, u64) {
  return int(cudaStreamSynchronize(on));
}

#  else

inline stream stream_at(void *) {
  return {};
}
inline int launch_error() {
  return 0;
}
// Returns 0, or 1 if kernels still run at the timeout. The largest number means no timeout.
inline int wait_for(stream, u64 timeout_ns) {
  u64 const now_ns = host::now_ns();
  return host::synchronize(timeout_ns < ~u64{0} - now_ns ? now_ns + timeout_ns : ~u64{0}) ? 0 : 1;
}

#  endif

}  // namespace tanada::simt

#endif
