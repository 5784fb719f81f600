// tanada/device/detail/shmem/calls/module.hpp: the view, as the device code of this translation
// unit has it. Not for direct inclusion.
#pragma once

#include "../view.hpp"

// Of libshmem: tells `update` what kernels are to see, now and whenever it changes; a null view:
// the job is over, and `update` waits for kernels that are at work. Nonzero: the module does not
// know views of that size, the device refused, or kernels do not end.
extern "C" int shmemx_module_register(int is_cuda,
                                      int (*update)(const void *view, decltype(sizeof 0) size));

#if TND_SIMT_CUDA

static __constant__ tanada::shmem::device::view tnd_shmem_module_view;
static bool tnd_shmem_module_asks_host = false;  // its kernels call PEs that they do not reach

namespace tanada::shmem::device {

TND_DEVICE inline const view &here() {
  return tnd_shmem_module_view;
}
inline bool asks_host() {
  return tnd_shmem_module_asks_host;
}

inline int update_cuda_module(const void *from, decltype(sizeof 0) size, const view &symbol,
                              bool &asks_host) {
  view value{};
  if (from != nullptr) {
    if (size != sizeof value)
      return 1;
    __builtin_memcpy(&value, from, size);
  }
  asks_host = value.has_far != 0;
  cudaError_t const code = cudaMemcpyToSymbol(symbol, &value, sizeof value);
  // CUDA is gone, and kernels with it: the process is about to end.
  return code == cudaSuccess || (from == nullptr && code == cudaErrorCudartUnloading) ? 0 : 1;
}

// One a translation unit, as the variable is.
static const int module_registered =
    shmemx_module_register(1, [](const void *from, decltype(sizeof 0) size) {
      return update_cuda_module(from, size, tnd_shmem_module_view, tnd_shmem_module_asks_host);
    });

}  // namespace tanada::shmem::device

#else

namespace tanada::shmem::device {

// The host executor runs kernels in the process: one is enough.
inline view module_view{};

inline const view &here() {
  return module_view;
}
inline bool asks_host() {
  return module_view.has_far != 0;
}

inline constexpr u64 end_timeout_ns = 10'000'000'000;  // of kernels, once the job is over

inline int update_module(const void *from, decltype(sizeof 0) size) {
  if (from != nullptr && size != sizeof module_view)
    return 1;
  if (from == nullptr && !simt::host::synchronize(simt::host::now_ns() + end_timeout_ns))
    return 1;
  if (from == nullptr)
    module_view = view{};
  else
    __builtin_memcpy(&module_view, from, size);
  return 0;
}

inline const int module_registered = shmemx_module_register(0, &update_module);

}  // namespace tanada::shmem::device

#endif
