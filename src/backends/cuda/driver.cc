// Loading the functions of CUDA's driver.
#include "backends/cuda/driver.hpp"

#include "backends/cuda/message.hpp"
#include "backends/cuda/runtime.hpp"

namespace tanada::backends::cuda {
namespace {

constexpr unsigned version = 12000;  // of the driver interface that this code uses

template <class Function>
bool find(const char *name, Function &function) {
  void *addr = nullptr;
  cudaDriverEntryPointQueryResult answer = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  cudaError_t const error =
      cudaGetDriverEntryPointByVersion(name, &addr, version, cudaEnableDefault, &answer);
#else
  cudaError_t const error = cudaGetDriverEntryPoint(name, &addr, cudaEnableDefault, &answer);
#endif
  if (error != cudaSuccess)
    (void)cudaGetLastError();
  function = reinterpret_cast<Function>(addr);
  if (error == cudaSuccess && answer == cudaDriverEntryPointSuccess && addr != nullptr)
    return true;
  (void)set_error(-TND_EDEVICE, "the CUDA driver has no function {}: update the driver", name);
  return false;
}

struct functions {
  driver table{};
  bool complete;

  functions()
      : complete{find("cuGetErrorString", table.error_string) &&
                 find("cuGetErrorName", table.error_name) &&
                 find("cuDeviceGetAttribute", table.device_attribute) &&
                 find("cuMemGetAllocationGranularity", table.granularity) &&
                 find("cuMemCreate", table.create) && find("cuMemRelease", table.release) &&
                 find("cuMemExportToShareableHandle", table.export_handle) &&
                 find("cuMemImportFromShareableHandle", table.import_handle) &&
                 find("cuMemAddressReserve", table.reserve) &&
                 find("cuMemAddressFree", table.unreserve) && find("cuMemMap", table.map) &&
                 find("cuMemUnmap", table.unmap) && find("cuMemSetAccess", table.set_access) &&
                 find("cuPointerGetAttribute", table.pointer_attribute) &&
                 find("cuCtxGetCurrent", table.context) &&
                 find("cuCtxSetCurrent", table.set_context)} {
    (void)find("cuFlushGPUDirectRDMAWrites", table.flush_remote_writes);
  }
};

}  // namespace

const driver *driver_functions() {
  static functions const loaded;
  if (loaded.complete)
    return &loaded.table;
  (void)set_error(-TND_EDEVICE, "the CUDA driver lacks required functions: update the driver");
  return nullptr;
}

current_device::current_device(uint32_t index) {
  auto const *const call = driver_functions();
  if (call == nullptr || call->context(&before_) != CUDA_SUCCESS)
    before_ = nullptr;
  error_ = cudaSetDevice(int(index));
}

current_device::~current_device() {
  if (auto const *const call = driver_functions(); call != nullptr)
    (void)call->set_context(before_);
}

}  // namespace tanada::backends::cuda
