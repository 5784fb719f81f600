// observe/probes/probes_gpu.cc: probes that load libraries: CUDA, GPUDirect Storage and stores.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backends/registry/cuda_gpu.hpp"
#include "backends/registry/store_plugin_loader.hpp"
#include "core/base/log.hpp"
#include "observe/probes/probes.hpp"
#include "seams/os/plugin_paths.hpp"

namespace tanada::observe {
namespace {

bool exists(const std::string &path) {
  return access(path.c_str(), F_OK) == 0;
}

// Reads "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  ...". Returns the first word
// that has only digits and at least one dot.
std::string driver_version(const system_root &root) {
  std::ifstream file{root.path("/proc/driver/nvidia/version")};
  for (std::string word; file >> word;) {
    bool const is_version = word.find_first_not_of("0123456789.") == std::string::npos &&
                            word.find('.') != std::string::npos;
    if (is_version)
      return word;
  }
  return {};
}

// Whether the PCI bus has an NVIDIA display or 3D controller, with or without a driver.
bool has_nvidia_device(const system_root &root) {
  std::error_code error;
  for (auto const &entry :
       std::filesystem::directory_iterator{root.path("/sys/bus/pci/devices"), error}) {
    std::string vendor, kind;
    std::ifstream{entry.path() / "vendor"} >> vendor;
    std::ifstream{entry.path() / "class"} >> kind;
    if (vendor == "0x10de" && kind.starts_with("0x03"))
      return true;
  }
  return false;
}

}  // namespace

gds_probe gds_probe::run(const system_root &root, const char *library) {
  gds_probe probe;
  probe.has_driver = exists(root.path("/proc/driver/nvidia-fs/version"));
  // Never unloaded, because it starts threads of its own.
  void *const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  probe.has_library = handle != nullptr;
  if (handle == nullptr)
    return probe;
  auto const version = reinterpret_cast<int (*)(int *)>(dlsym(handle, "cuFileGetVersion"));
  int number = 0;
  if (version != nullptr && version(&number) == 0)
    probe.library_version = number;
  return probe;
}

finding describe(const gds_probe &probe) {
  std::string library = "libcufile";
  if (probe.library_version != 0)
    library.append(" ").append(std::to_string(probe.library_version));
  if (!probe.has_library)
    return {
        "GDS",
        finding_state::lacking,
        "no libcufile.so.0: files reach the GPU through host memory",
        "apt-get install libcufile-13-0 (NVIDIA's repository), or the pip package nvidia-cufile"};
  if (!probe.has_driver)
    return {"GDS",
            finding_state::lacking,
            library +
                ", but the module nvidia-fs is not loaded: compatibility mode, with copies through "
                "host "
                "memory",
            "apt-get install nvidia-fs-dkms && modprobe nvidia-fs"};
  return {"GDS", finding_state::good, library + " and the module nvidia-fs", {}};
}

gpu_probe probe_gpu() {
  gpu_probe gpu;
  backends::cuda_plugin const loaded = backends::cuda_plugin_load();
  gpu.plugin_is_missing = loaded.code == status::no_plugin;
  gpu.plugin_file_missing = gpu.plugin_is_missing && std::getenv("TND_CUDA_PLUGIN") == nullptr &&
                            seams::plugin_path(cuda_part().file).empty();
  gpu.reason = loaded.reason.empty() && loaded.table == nullptr ? "libtanada_cuda.so was not found"
                                                                : loaded.reason;
  if (loaded.table == nullptr)
    return gpu;
  auto opened = backends::cuda_gpu_open(*loaded.table, 0);
  if (!opened.ok()) {
    gpu.reason = last_message();
    return gpu;
  }
  seams::gpu_info const &info = opened.value()->info();
  gpu.name =
      info.name +
      (loaded.device_count > 1 ? " and " + std::to_string(loaded.device_count - 1) + " more" : "");
  gpu.numa_node = info.numa_node;
  return gpu;
}

std::vector<finding> describe(const gpu_probe &probe, const system_root &root, bool is_demanded) {
  std::string const version = driver_version(root);
  bool const has_driver = !version.empty(), has_gpu = has_driver || has_nvidia_device(root);
  std::string const driver = has_driver ? "driver " + version : "no driver";
  // Without any GPU, the host executor is the intended fallback. A GPU that cannot be used is an
  // error.
  finding_state const bad = has_gpu || is_demanded ? finding_state::broken : finding_state::lacking;
  finding gpu{"GPU", finding_state::good, probe.name + ", " + driver, {}};
  finding plugin{"CUDA plugin", finding_state::good, "loads", {}};
  if (!probe.name.empty())
    return {gpu, plugin};
  if (!has_gpu)
    gpu = {"GPU", bad, "no GPU: kernels run on the host executor", "use a node with an NVIDIA GPU"};
  else if (!has_driver)
    gpu = {"GPU",
           bad,
           "an NVIDIA GPU without its driver",
           "apt-get install nvidia-driver nvidia-open-kernel-dkms"};
  else
    gpu = {"GPU",
           probe.plugin_is_missing ? finding_state::good : bad,
           driver + (probe.plugin_is_missing ? "" : ": " + probe.reason),
           probe.plugin_is_missing ? "" : "nvidia-smi; a container needs --gpus all"};
  if (probe.plugin_file_missing)
    plugin = describe_missing(cuda_part(), bad, "kernels run on the host executor");
  else if (probe.plugin_is_missing)
    plugin = {"CUDA plugin",
              bad,
              probe.reason,
              "make install CUDA=1, or set TND_CUDA_PLUGIN to libtanada_cuda.so"};
  return {gpu, plugin};
}

finding probe_store(const optional_part &part, const char *package) {
  std::string const reason =
      backends::plugin_store_error({.scheme = part.topic, .file = part.file, .requirement = ""});
  if (reason.empty())
    return {part.topic, finding_state::good, "the plugin loads", {}};
  if (seams::plugin_path(part.file).empty()) {
    return describe_missing(
        part, finding_state::lacking, std::string{part.topic} + ":// cannot be opened");
  }
  bool const loads =
      dlopen(seams::plugin_path(part.file).c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr;
  return {part.topic,
          finding_state::lacking,
          reason,
          loads ? "make install builds the one of this version"
                : std::string{"apt-get install "} + package};
}

}  // namespace tanada::observe
