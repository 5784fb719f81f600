// backends/cuda/device_memory.hpp: device memory that other processes map, and the test whether an
// address is device memory: functions of the plugin (seams/gpu/gpu_plugin.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include <tanada/status.h>

namespace tanada::backends::cuda {

tnd_status allocate_shared(uint32_t device_index, size_t *size, void **addr, int *descriptor);
tnd_status map_shared(uint32_t device_index, int descriptor, size_t size, void **addr);
void unmap_shared(uint32_t device_index, void *addr, size_t size);

// Queries the driver. For pages unknown to the driver, the answer is cached for some calls.
int is_device_memory(const void *addr);

}  // namespace tanada::backends::cuda
