// simt/launch.hpp: start a kernel, on CUDA's default stream or on the host executor. Asynchronous on both: wait
// with ghandle(), tnd_gfile_wait() or simt::synchronize().
#pragma once

#include "thread.hpp"

#if !TND_SIMT_RTC

namespace tanada::simt {

#if TND_SIMT_CUDA

using dim3 = ::dim3;

// A launch that the driver refuses shows in the cudaGetLastError() of this program, as after any <<< >>>: the library
// has a CUDA runtime of its own and cannot see it.
template <class... Parameters, class... Arguments>
void launch(dim3 grid_size, dim3 block_size, void (*kernel)(Parameters...), Arguments... arguments) {
  kernel<<<grid_size, block_size>>>(static_cast<Parameters>(arguments)...);
}

#else

template <class... Parameters, class... Arguments>
void launch(dim3 grid_size, dim3 block_size, void (*kernel)(Parameters...), Arguments... arguments) {
  host::launch(grid_size, block_size, [=] { kernel(static_cast<Parameters>(arguments)...); });
}

#endif

}  // namespace tanada::simt

#endif
