// backends/cuda/remote_writes.hpp: makes network cards' writes to device memory visible to kernels:
// functions of the plugin (seams/gpu/gpu_plugin.h).
#pragma once

#include <cstdint>

#include <tanada/status.h>

namespace tanada::backends::cuda {

// EOPNOTSUPP: the device neither orders such writes by itself nor can flush them.
tnd_status fabric_prepare(uint32_t device_index);
// Earlier remote writes are visible to all devices that read the memory from now on.
tnd_status fabric_settle(uint32_t device_index);

}  // namespace tanada::backends::cuda
