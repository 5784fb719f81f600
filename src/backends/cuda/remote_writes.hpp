// backends/cuda/remote_writes.hpp: what network cards write to a device's memory, seen by its
// kernels: the plugin's functions (seams/gpu/gpu_plugin.h).
#pragma once

#include <cstdint>

#include <tanada/status.h>

namespace tanada::port::cuda {

// EOPNOTSUPP: neither the device orders such writes by itself, nor can they be waited for.
tnd_status fabric_prepare(uint32_t device_index);
// What has been written before is seen by all devices that look from now on.
tnd_status fabric_settle(uint32_t device_index);

}  // namespace tanada::port::cuda
