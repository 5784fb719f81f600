// backends/registry/cuda_gpu.hpp: CUDA devices for gpu.hpp, over the plugin's table.
#pragma once

#include "seams/gpu/gpu.hpp"
#include "seams/gpu/gpu_plugin.h"

namespace tanada::backends {

struct cuda_plugin {
  const tnd_gpu_plugin *table = nullptr;  // null: the plugin did not load
  uint32_t device_count = 0;
  std::string reason;        // why CUDA cannot be used, one line; empty if it can
  status code = status::ok;  // no_plugin or no_device if it cannot
};

// Loads libtanada_cuda.so and counts its devices. If TND_CUDA_PLUGIN is set, only that file is
// tried; otherwise the first of plugin_paths() that exists. Never unloaded.
cuda_plugin cuda_plugin_load();

// Opens a device of the plugin.
result<std::unique_ptr<seams::gpu>> cuda_gpu_open(const tnd_gpu_plugin &table,
                                                  uint32_t device_index);

}  // namespace tanada::backends
