// backends/registry/cuda_loader.cc: loads the CUDA plugin.
#include <dlfcn.h>
#include <tanada/status.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "backends/registry/cuda_gpu.hpp"
#include "seams/os/plugin_paths.hpp"

namespace tanada::backends {
namespace {

constexpr char gpu_file_name[] = "libtanada_cuda.so";

std::vector<std::string> candidates() {
  if (const char *path = std::getenv("TND_CUDA_PLUGIN"); path != nullptr)
    return {path};
  return seams::plugin_paths(gpu_file_name);
}

// Only the first existing candidate is tried, so that its error is reported and not the absence of
// the next.
void *load(std::string &reason) {
  for (const auto &path : candidates()) {
    bool const is_path = path.find('/') != std::string::npos;
    bool const is_last = path == candidates().back();
    if (is_path && !is_last && access(path.c_str(), F_OK) != 0)
      continue;
    if (void *const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr)
      return handle;
    reason = dlerror();
    return nullptr;
  }
  return nullptr;
}

}  // namespace

cuda_plugin cuda_plugin_load() {
  cuda_plugin loaded;
  loaded.code = status::no_plugin;
  void *const handle = load(loaded.reason);
  if (handle == nullptr)
    return loaded;
  auto const *const table =
      static_cast<const tnd_gpu_plugin *>(dlsym(handle, TND_GPU_PLUGIN_SYMBOL));
  if (table == nullptr) {
    loaded.reason = std::string{gpu_file_name} + " has no symbol " + TND_GPU_PLUGIN_SYMBOL;
    return loaded;
  }
  if (table->abi != TND_GPU_PLUGIN_ABI) {
    loaded.reason = std::string{gpu_file_name} + " has ABI " + std::to_string(table->abi) +
                    ", this library needs " + std::to_string(TND_GPU_PLUGIN_ABI);
    return loaded;
  }
  loaded.code = status::no_device;
  tnd_status const counted = table->device_count(&loaded.device_count);
  if (counted != TND_OK) {
    loaded.reason = table->last_message();
    return loaded;
  }
  if (loaded.device_count == 0) {
    loaded.reason = "CUDA finds no device";
    return loaded;
  }
  loaded.table = table;
  loaded.code = status::ok;
  return loaded;
}

}  // namespace tanada::backends
