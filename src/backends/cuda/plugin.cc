// libtanada_cuda.so: gpu_plugin.h on the CUDA runtime, which is linked in, so that the core does
// not depend on CUDA.
#include "seams/gpu/gpu_plugin.h"

#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "core/base/bounded_text.hpp"
#include "core/base/mutex.hpp"
#include "backends/cuda/device_memory.hpp"
#include "backends/cuda/direct.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/queue.hpp"
#include "backends/cuda/remote_writes.hpp"
#include "backends/cuda/runtime.hpp"
#include "backends/cuda/service.hpp"

namespace tanada::backends::cuda {

namespace {

thread_local char message_of_thread[bounded_text::size_max + 1] = "";

tnd_status status_of(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return TND_OK;
    case cudaErrorMemoryAllocation:
      return -12;  // ENOMEM
    case cudaErrorInvalidValue:
      return -22;  // EINVAL
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorDevicesUnavailable:
      return -19;  // ENODEV
    default:
      return -TND_EDEVICE;
  }
}

}  // namespace

tnd_status set_error_text(tnd_status code, fmt::string_view format, fmt::format_args arguments) {
  std::strcpy(message_of_thread, bounded_text{format, arguments}.c_str());
  return code;
}

const char *last_message() {
  return message_of_thread;
}

tnd_status checked(cudaError_t error, const char *action, unsigned long long number) {
  if (error == cudaSuccess)
    return TND_OK;
  (void)cudaGetLastError();  // or the next call would report it again
  return set_error(status_of(error),
                   "{} {}: {} ({})",
                   action,
                   number,
                   cudaGetErrorString(error),
                   cudaGetErrorName(error));
}

}  // namespace tanada::backends::cuda

namespace {

using tanada::backends::cuda::checked;
using tanada::backends::cuda::current_device;
using tanada::backends::cuda::last_message;
using tanada::backends::cuda::set_error;

constexpr uintptr_t host_alignment = 4096;

// A stream of the calling thread on one device, not ordered with other streams. A copy must not
// wait for kernels of the default stream, which may wait for the copy.
class thread_stream {
 public:
  ~thread_stream() {
    if (stream_ != nullptr)
      (void)cudaStreamDestroy(stream_);
  }
  cudaError_t get(uint32_t device_index, cudaStream_t &stream) {
    if (stream_ != nullptr && device_index != device_index_) {
      (void)cudaStreamDestroy(stream_);
      stream_ = nullptr;
    }
    device_index_ = device_index;
    cudaError_t const error = stream_ != nullptr
                                  ? cudaSuccess
                                  : cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    stream = stream_;
    return error;
  }

 private:
  cudaStream_t stream_ = nullptr;
  uint32_t device_index_ = 0;
};
thread_local thread_stream stream_of_thread;

// Maps aligned addresses to those returned by cudaHostAlloc. Never destroyed, because programs free
// memory during exit.
struct host_allocations {
  tanada::mutex mutex;
  std::unordered_map<void *, void *> bases;  // guarded by mutex
};
host_allocations &allocations() {
  static host_allocations &instance = *new host_allocations;
  return instance;
}

tnd_status device_count(uint32_t *count) {
  int visible_count = 0;
  if (cudaError_t const error = cudaGetDeviceCount(&visible_count); error != cudaSuccess) {
    (void)cudaGetLastError();
    return set_error(-19,
                     "CUDA found no device: {} ({})",
                     cudaGetErrorString(error),
                     cudaGetErrorName(error));  // ENODEV
  }
  *count = uint32_t(visible_count);
  return TND_OK;
}

tnd_status open_device(uint32_t device_index,
                       char *name,
                       size_t name_size,
                       uint32_t *multiprocessor_count,
                       uint64_t *memory_size,
                       char *pci_bus_id) {
  cudaDeviceProp properties;
  cudaError_t error = cudaGetDeviceProperties(&properties, int(device_index));
  if (error == cudaSuccess)
    error = cudaSetDevice(int(device_index));
  if (error == cudaSuccess)
    error = cudaFree(nullptr);  // creates the primary context
  if (error == cudaSuccess)
    error = cudaDeviceGetPCIBusId(pci_bus_id, 16, int(device_index));
  if (tnd_status const code = checked(error, "cannot open GPU", device_index); code != TND_OK)
    return code;
  std::snprintf(name, name_size, "%s", properties.name);
  *multiprocessor_count = uint32_t(properties.multiProcessorCount);
  *memory_size = properties.totalGlobalMem;
  return TND_OK;
}

tnd_status allocate_device(uint32_t device_index, size_t size, void **addr) {
  current_device const device{device_index};
  cudaError_t error = device.error();
  if (error == cudaSuccess)
    error = cudaMalloc(addr, size == 0 ? 1 : size);
  return checked(error, "cannot allocate device memory, bytes:", size);
}

void free_device(uint32_t device_index, void *addr) {
  current_device const device{device_index};
  (void)cudaFree(addr);
}

tnd_status allocate_host(uint32_t device_index, size_t size, void **addr) {
  current_device const device{device_index};
  void *base = nullptr;
  cudaError_t error = size > SIZE_MAX - host_alignment ? cudaErrorMemoryAllocation : device.error();
  if (error == cudaSuccess)
    error =
        cudaHostAlloc(&base, size + host_alignment, cudaHostAllocPortable | cudaHostAllocMapped);
  if (tnd_status const code = checked(error, "cannot allocate pinned host memory, bytes:", size);
      code != TND_OK)
    return code;
  auto const aligned =
      (reinterpret_cast<uintptr_t>(base) + host_alignment - 1) / host_alignment * host_alignment;
  *addr = std::memset(reinterpret_cast<void *>(aligned), 0, size);
  tanada::lock_guard const lock{allocations().mutex};
  allocations().bases[*addr] = base;
  return TND_OK;
}

void free_host(uint32_t device_index, void *addr) {
  void *base = nullptr;
  {
    tanada::lock_guard const lock{allocations().mutex};
    auto const it = allocations().bases.find(addr);
    if (it == allocations().bases.end())
      return;
    base = it->second;
    allocations().bases.erase(it);
  }
  current_device const device{device_index};
  (void)cudaFreeHost(base);
}

tnd_status copy(uint32_t device_index, void *target, const void *source, size_t size) {
  current_device const device{device_index};
  cudaStream_t stream = nullptr;
  cudaError_t error = device.error();
  if (error == cudaSuccess)
    error = stream_of_thread.get(device_index, stream);
  if (error == cudaSuccess)
    error = cudaMemcpyAsync(target, source, size, cudaMemcpyDefault, stream);
  if (error == cudaSuccess)
    error = cudaStreamSynchronize(stream);
  return checked(error, "cannot copy, bytes:", size);
}

tnd_status fill(uint32_t device_index, void *target, uint8_t value, size_t size) {
  current_device const device{device_index};
  cudaStream_t stream = nullptr;
  cudaError_t error = device.error();
  if (error == cudaSuccess)
    error = stream_of_thread.get(device_index, stream);
  if (error == cudaSuccess)
    error = cudaMemsetAsync(target, value, size, stream);
  if (error == cudaSuccess)
    error = cudaStreamSynchronize(stream);
  return checked(error, "cannot fill device memory, bytes:", size);
}

tnd_status synchronize(uint32_t device_index) {
  current_device const device{device_index};
  tanada::backends::cuda::stop_services(device_index);
  cudaError_t error = device.error();
  if (error == cudaSuccess)
    error = cudaDeviceSynchronize();
  tnd_status const code = checked(error, "kernels failed on GPU", device_index);
  return code == TND_OK ? TND_OK : -TND_EDEVICE;
}

tnd_status register_host(uint32_t device_index, const void *addr, size_t size, int is_writable) {
  current_device const device{device_index};
  unsigned const flags = cudaHostRegisterPortable | cudaHostRegisterMapped |
                         (is_writable != 0 ? 0u : unsigned(cudaHostRegisterReadOnly));
  cudaError_t error = device.error();
  void *const start = const_cast<void *>(addr);
  if (error == cudaSuccess)
    error = cudaHostRegister(start, size, flags);
  if (tnd_status const code = checked(error, "cannot register host memory, bytes:", size);
      code != TND_OK)
    return code;
  void *device_addr = nullptr;
  error = cudaHostGetDevicePointer(&device_addr, start, 0);
  if (error == cudaSuccess && device_addr == addr)
    return TND_OK;
  (void)cudaHostUnregister(start);
  return set_error(-95, "registered host memory has a different address on the GPU");  // EOPNOTSUPP
}

void unregister_host(uint32_t device_index, const void *addr) {
  current_device const device{device_index};
  (void)cudaHostUnregister(const_cast<void *>(addr));
}

// The runtime returns 0 if no device is current; the driver reports the difference.
tnd_status device_current(uint32_t *device_index) {
  auto const *const call = tanada::backends::cuda::driver_functions();
  if (call == nullptr)
    return -19;  // ENODEV
  CUcontext context = nullptr;
  if (call->context(&context) != CUDA_SUCCESS || context == nullptr)
    return set_error(-19, "no GPU is current in this thread");
  int index = 0;
  tnd_status const code = checked(cudaGetDevice(&index), "the current GPU is not known, error", 0);
  if (code == TND_OK)
    *device_index = uint32_t(index);
  return code;
}

uint64_t range_start(const char *name) {
  return nvtxRangeStartA(name);
}
void range_end(uint64_t range) {
  nvtxRangeEnd(range);
}

}  // namespace

namespace cuda = tanada::backends::cuda;

extern "C" TND_API const tnd_gpu_plugin tnd_gpu_plugin_table __asm__(TND_GPU_PLUGIN_SYMBOL);
extern "C" const tnd_gpu_plugin tnd_gpu_plugin_table = {
    TND_GPU_PLUGIN_ABI,
    device_count,
    open_device,
    allocate_device,
    free_device,
    cuda::allocate_shared,
    cuda::map_shared,
    cuda::unmap_shared,
    cuda::is_device_memory,
    cuda::queue_open,
    cuda::queue_close,
    cuda::queue_put,
    cuda::queue_get,
    cuda::queue_copy,
    cuda::queue_copy_rows,
    cuda::queue_update,
    cuda::queue_order,
    cuda::queue_wait,
    allocate_host,
    free_host,
    copy,
    fill,
    synchronize,
    register_host,
    unregister_host,
    cuda::direct_prepare,
    cuda::direct_open,
    cuda::direct_close,
    cuda::direct_read,
    range_start,
    range_end,
    last_message,
    device_current,
    cuda::fabric_prepare,
    cuda::fabric_settle,
};
