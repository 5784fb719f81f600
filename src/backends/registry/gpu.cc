// backends/registry/gpu.cc: opens the device that a program chose.
#include "seams/gpu/gpu.hpp"

#include <dlfcn.h>
#include <tanada/status.h>

#include "backends/registry/cuda_gpu.hpp"
#include "core/base/log.hpp"

namespace tanada::seams {

// The plugin is searched each time: loading it again costs only a look-up, and a variable set since
// then takes effect.
result<std::unique_ptr<gpu>> gpu_open(gpu_choice choice, uint32_t device_index) {
  if (choice == gpu_choice::host)
    return host_gpu_open();
  backends::cuda_plugin loaded = backends::cuda_plugin_load();
  if (loaded.reason.empty() && device_index >= loaded.device_count) {
    loaded.code = status::no_device;
    loaded.reason = "there is no GPU " + std::to_string(device_index) + "; CUDA finds " +
                    std::to_string(loaded.device_count);
  }
  if (loaded.reason.empty())
    return backends::cuda_gpu_open(*loaded.table, device_index);
  if (choice == gpu_choice::cuda)
    return fail(loaded.code, "{}", loaded.reason);
  log(log_level::info, "kernels run on the host executor: {}", loaded.reason);
  return host_gpu_open();
}

int gpu_current() noexcept {
  // A process that has not loaded the driver has no current device, so the plugin need not be
  // loaded to find out.
  void *const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr)
    return -1;
  dlclose(driver);
  backends::cuda_plugin const loaded = backends::cuda_plugin_load();
  uint32_t index = 0;
  return loaded.reason.empty() && loaded.table->device_current(&index) == TND_OK ? int(index) : -1;
}

uint32_t gpu_count() noexcept {
  backends::cuda_plugin const loaded = backends::cuda_plugin_load();
  return loaded.reason.empty() ? loaded.device_count : 0;
}

std::string cuda_unavailable_reason() {
  return backends::cuda_plugin_load().reason;
}

}  // namespace tanada::seams
