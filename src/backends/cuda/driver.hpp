// backends/cuda/driver.hpp: functions of CUDA's driver, obtained through the runtime. So nothing
// links libcuda, and the plugin loads on nodes without a driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

namespace tanada::backends::cuda {

struct driver {
  decltype(&cuGetErrorString) error_string;
  decltype(&cuGetErrorName) error_name;
  decltype(&cuDeviceGetAttribute) device_attribute;
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemExportToShareableHandle) export_handle;
  decltype(&cuMemImportFromShareableHandle) import_handle;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) unreserve;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
  decltype(&cuPointerGetAttribute) pointer_attribute;
  decltype(&cuCtxGetCurrent) context;
  decltype(&cuCtxSetCurrent) set_context;
  decltype(&cuFlushGPUDirectRDMAWrites) flush_remote_writes;  // null: not in this driver
};

// Returns all functions; null, with a message, if the driver lacks one. Any thread.
const driver *driver_functions();

}  // namespace tanada::backends::cuda
