// tanada/device/detail/simt/stream.hpp: streams for those that compile no kernels: by the pointer
// that CUDA's driver and every language know them by.
#pragma once

#include "launch.hpp"

#if !TND_SIMT_RTC

namespace tanada::simt {

#  if TND_SIMT_CUDA

inline stream stream_at(void *handle) {
  return static_cast<stream>(handle);
}
// Of this thread's launches since it was last asked: 0, or the driver's number of why one was
// refused.
inline int launch_error() {
  return int(cudaGetLastError());
}
// 0, or the driver's number. It waits as long as it takes.
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
// 0; 1: kernels are still at work when the time is over. The largest number is no limit.
inline int wait_for(stream, u64 timeout_ns) {
  u64 const now = host::now_ns();
  return host::synchronize(timeout_ns < ~u64{0} - now ? now + timeout_ns : ~u64{0}) ? 0 : 1;
}

#  endif

}  // namespace tanada::simt

#endif
