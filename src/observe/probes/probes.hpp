// observe/probes/probes.hpp: checks which features of this node the products can use, and how to
// get missing ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tanada::observe {

enum class finding_state {
  good,
  lacking,  // a product is slower or lacks a feature, but works
  broken    // a product does not work correctly
};

// One line of `tanada doctor`.
struct finding {
  const char *topic;
  finding_state state;
  std::string text;
  std::string remedy;  // a command or package; empty if nothing is wrong or nothing can be done
};

// The file system that the probes read. `root` precedes every path of /proc, /sys and /dev, so that
// a test can use a folder of its own.
struct system_root {
  std::string root;
  std::string path(const char *name) const {
    return root + name;
  }
};

finding probe_rdma(const system_root &root);
finding probe_io_uring(const system_root &root);
finding probe_huge_pages(const system_root &root);
finding probe_numa(const system_root &root, int gpu_node);  // -1: no GPU, or its node is unknown
finding probe_shared_memory(const system_root &root);
finding probe_limits_memory(uint64_t locked_max);  // bytes; ~0: unlimited
finding probe_limits_files(uint64_t open_max);
// Limits of this process's control group on memory and on processes.
finding probe_cgroup(const system_root &root);
// Modules of the kernel for GPUs, and for RDMA into their memory.
finding probe_device_modules(const system_root &root);
// nvcc: `named` is CUDACXX (may be null), `search_path` has the format of PATH (may be null).
finding probe_nvcc(const system_root &root, const char *named, const char *search_path);
// The three probes above, on this node.
std::vector<finding> probe_administration(const system_root &root);
std::vector<finding>
probe_settings();  // one for each invalid variable, or a single one if all are valid

// GPUDirect Storage: whether files can be read directly into the GPU.
struct gds_probe {
  bool has_library = false;  // libcufile.so.0 loads
  int library_version = 0;   // from cuFileGetVersion; 0: unknown
  bool has_driver = false;   // the module nvidia-fs is loaded
  bool is_direct() const {
    return has_library && has_driver;
  }
  static gds_probe run(const system_root &root, const char *library = "libcufile.so.0");
};
finding describe(const gds_probe &probe);

// The GPU that the CUDA plugin finds, as cuda_plugin_load() does, and its location.
struct gpu_probe {
  std::string name;                  // empty: no usable GPU
  std::string reason;                // the reason, if there is no usable GPU
  bool plugin_is_missing = false;    // the plugin does not load
  bool plugin_file_missing = false;  // it does not load because its file does not exist
  int numa_node = -1;
};
gpu_probe probe_gpu();
// Two findings: the GPU with its driver, and the plugin. `is_demanded`: TND_GFILE_DEVICE=cuda.
std::vector<finding> describe(const gpu_probe &probe, const system_root &root, bool is_demanded);

// A plugin or library of Tanada that is built only if the packages it needs are installed.
struct optional_part {
  const char *topic;
  const char *file;
  bool is_configured;       // this build has it among its targets
  const char *requirement;  // the packages that the configuration requires for it
  const char *remedy;       // how to build with it
  const char *package;      // of Debian's format, which has it
};
// The optional parts of this build.
optional_part cuda_part();
optional_part gfarm_part();
optional_part gluster_part();
optional_part provider_part();
optional_part pmix_part();
optional_part global_arrays_part();

// Describes a part whose file does not exist: it was excluded from this build, or not built or
// installed. `effect`: what does not work without it.
finding describe_missing(const optional_part &part, finding_state state, const std::string &effect);

// Whether the plugin of a store loads, or why not. `package` contains the library that the plugin
// needs.
finding probe_store(const optional_part &part, const char *package);

// `path`: of libo2g-fi.so ("": not installed). `provider_path`: FI_PROVIDER_PATH as libfabric reads
// it (may be null).
finding probe_provider(const std::string &path, const char *provider_path);
// The plugin or library at this path; "": not installed.
finding probe_pmix(const std::string &path);
finding probe_global_arrays(const std::string &path);
// A process launcher in the folders of this list, which has the format of PATH.
finding probe_launcher(const char *search_path);
// A library of MPI that programs over o2g or of Global Arrays can use.
finding probe_mpi();
// userfaultfd, with which Global Arrays larger than memory detect page accesses.
finding probe_userfaultfd();
// The driver o2g.ko of the calls of tanada/o2g.h. `setting`: TND_O2G_DRIVER (may be null).
finding probe_o2g_driver(const system_root &root, const char *setting);
// The seven probes above, on this node.
std::vector<finding> probe_products();

// All probes, on this node.
std::vector<finding> probe_all(const system_root &root);

}  // namespace tanada::observe
