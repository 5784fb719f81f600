// backends/cuda/device_memory.hpp: memory of a device that other processes map, and what is memory
// of a device at all: the plugin's functions (seams/gpu/gpu_plugin.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include <tanada/status.h>

namespace tanada::port::cuda {

tnd_status allocate_shared(uint32_t device_index, size_t *size, void **addr, int *descriptor);
tnd_status map_shared(uint32_t device_index, int descriptor, size_t size, void **addr);
void unmap_shared(uint32_t device_index, void *addr, size_t size);

// Asks the driver, but for some calls not again of a page that it knew nothing of.
int is_device_memory(const void *addr);

}  // namespace tanada::port::cuda
