// backends/cuda/direct.hpp: the plugin's direct_ functions (seams/gpu/gpu_plugin.h): GPUDirect
// Storage through cuFile.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tanada/status.h>

namespace tanada::backends::cuda {

tnd_status direct_prepare(uint32_t device_index, int compatible_too, int *compatible);
tnd_status direct_open(int descriptor, uint64_t *file);
void direct_close(uint64_t file);
tnd_status direct_read(uint32_t device_index,
                       uint64_t file,
                       uint64_t offset,
                       void *target,
                       size_t size,
                       size_t *moved);

}  // namespace tanada::backends::cuda
