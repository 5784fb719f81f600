// tanada/device/detail/shmem/calls/job_view.hpp: the view of the job, as visible to the device code
// of this translation unit. Not for direct inclusion.
#pragma once

#include "../view.hpp"

// A function of libshmem. It calls `update` with the view for kernels, now and after each change. A
// null view: the job is over, and `update` waits for running kernels. `update` returns nonzero if
// the module does not know views of that size, the device refused, or kernels do not end.
extern "C" int shmemx_module_register(int is_cuda,
                                      int (*update)(const void *view, decltype(sizeof 0) size));

#if TND_SIMT_CUDA

static __constant__ tanada::shmem::device::view tnd_shmem_module_view;
static bool tnd_shmem_module_asks_host = false;  // its kernels call the host for PEs whose memory
                                                 // is not mapped

namespace tanada::shmem::device {

TND_DEVICE inline const view &job_view() {
  return tnd_shmem_module_view;
}
inline bool calls_host() {
  return tnd_shmem_module_asks_host;
}

// The thread that answers requests polls for them.
TND_DEVICE inline void wake_service() {}

inline int update_cuda_module(const void *source,
                              decltype(sizeof 0) size,
                              const view &symbol,
                              bool &calls_host) {
  view value{};
  if (source != nullptr) {
    if (size != sizeof value)
      return 1;
    __builtin_memcpy(&value, source, size);
  }
  calls_host = value.has_unmapped != 0;
  cudaError_t const code = cudaMemcpyToSymbol(symbol, &value, sizeof value);
  // CUDA has shut down, and its kernels with it: the process is about to end.
  return code == cudaSuccess || (source == nullptr && code == cudaErrorCudartUnloading) ? 0 : 1;
}

// One for each translation unit, like the variable.
static const int module_registered =
    shmemx_module_register(1, [](const void *source, decltype(sizeof 0) size) {
      return update_cuda_module(source, size, tnd_shmem_module_view, tnd_shmem_module_asks_host);
    });

}  // namespace tanada::shmem::device

#else

// Functions of libshmem, which has no part of the executor that runs the kernels. The first one
// receives the function that wakes kernels which wait for an answer. The second one wakes the
// thread that answers them.
extern "C" void shmemx_executor_register(void (*wake_kernels)());
extern "C" void shmemx_service_wake();

namespace tanada::shmem::device {

// The host executor runs kernels in the process, so one view is enough.
inline view module_view{};

inline const view &job_view() {
  return module_view;
}
inline bool calls_host() {
  return module_view.has_unmapped != 0;
}
inline void wake_service() {
  shmemx_service_wake();
}

inline constexpr u64 end_timeout_ns = 10'000'000'000;  // limit for running kernels, once the job is
                                                       // over

inline int update_module(const void *source, decltype(sizeof 0) size) {
  if (source != nullptr && size != sizeof module_view)
    return 1;
  if (source == nullptr && !simt::host::synchronize(simt::host::now_ns() + end_timeout_ns))
    return 1;
  if (source == nullptr)
    module_view = view{};
  else
    __builtin_memcpy(&module_view, source, size);
  return 0;
}

inline const int module_registered = [] {
  shmemx_executor_register(&simt::host::wake_kernels);
  return shmemx_module_register(0, &update_module);
}();

}  // namespace tanada::shmem::device

#endif
