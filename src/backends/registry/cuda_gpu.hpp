// backends/registry/cuda_gpu.hpp: the CUDA side of gpu.hpp, over the plugin's table.
#pragma once

#include "seams/gpu/gpu.hpp"
#include "seams/gpu/gpu_plugin.h"

namespace tanada::port {

struct cuda_plugin {
  const tnd_gpu_plugin *table = nullptr;  // null: it did not load
  uint32_t device_count = 0;
  std::string reason;        // why CUDA cannot be used, one line; empty when it can
  status code = status::ok;  // no_plugin or no_device with it
};

// Load libtanada_cuda.so and count its devices. Looked for at TND_CUDA_PLUGIN if that is set and
// nowhere else; else it is the first of plugin_paths() that is there. Never unloaded.
cuda_plugin cuda_plugin_load();

// A device of the plugin.
result<std::unique_ptr<gpu>> cuda_gpu_open(const tnd_gpu_plugin &table, uint32_t device_index);

}  // namespace tanada::port
