// tanada/device/detail/gfile/module.hpp: the instance of ginitialize(), as visible to the device
// code of this translation unit. Not for direct inclusion.
#pragma once

#include "../simt/config.hpp"

#if !TND_SIMT_RTC
#  include <tanada/gfile.h>
#endif

#if TND_SIMT_CUDA

// Each module (a translation unit of nvcc, a module of NVRTC) has its own variable. The
// registration below keeps nvcc's variables up to date. Users of NVRTC set the variable through
// cuModuleGetGlobal, or pass a gfile_ref.
#  if TND_SIMT_RTC
extern "C" {
__device__ tanada::gfile_ref tnd_gfile_module_ref;
}
#  else
static __device__ tanada::gfile_ref tnd_gfile_module_ref;
#  endif

namespace tanada {
TND_DEVICE inline gfile_ref gfile_module_ref() {
  return tnd_gfile_module_ref;
}
}  // namespace tanada

#  if !TND_SIMT_RTC
namespace tanada::gfile::device {

inline tnd_status update_cuda_module(const tnd_gfile_ref *ref, gfile_ref &symbol) {
  gfile_ref const value{ref->state, ref->timeout_ns};
  return cudaMemcpyToSymbol(symbol, &value, sizeof value) == cudaSuccess ? 0 : -TND_EDEVICE;
}

// One for each translation unit, like the variable.
static const tnd_status module_registered =
    tnd_gfile_register_module(1, [](const tnd_gfile_ref *ref) noexcept -> tnd_status {
      return update_cuda_module(ref, tnd_gfile_module_ref);
    });

}  // namespace tanada::gfile::device
#  endif

#else

namespace tanada {

// The host executor runs kernels in the process, so all of them share one reference.
inline gfile_ref gfile_module_ref() noexcept {
  tnd_gfile_ref const ref = tnd_gfile_get_ref(tnd_gfile_default());
  return {ref.state, ref.timeout_ns};
}

namespace gfile::device {
inline const tnd_status module_registered = tnd_gfile_register_module(0, nullptr);
}  // namespace gfile::device

}  // namespace tanada

#endif
