// observe/probes/probes.hpp: what this machine offers the products, and what to do about what it
// lacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tanada::port {

enum class finding_state {
  good,
  lacking,  // slower or less without it; what is installed works
  broken    // a product does not work as it should
};

// One line of `tanada doctor`.
struct finding {
  const char *topic;
  finding_state state;
  std::string text;
  std::string remedy;  // a command or a package; empty when good or when there is none
};

// Where the probes look. `root` goes before every path of /proc, /sys and /dev: a test gives a
// folder of its own.
struct machine {
  std::string root;
  std::string path(const char *name) const {
    return root + name;
  }
};

finding probe_rdma(const machine &where);
finding probe_io_uring(const machine &where);
finding probe_huge_pages(const machine &where);
finding probe_numa(const machine &where, int gpu_node);  // -1: no GPU, or its node is not known
finding probe_shared_memory(const machine &where);
finding probe_limits_memory(uint64_t locked_max);  // bytes; ~0: no limit
finding probe_limits_files(uint64_t open_max);
std::vector<finding>
probe_settings();  // one a variable that is not understood, or one that all are

// GPUDirect Storage, for whoever wants to know whether files can go to the GPU directly.
struct gds_probe {
  bool has_library = false;  // libcufile.so.0 loads
  int library_version = 0;   // as cuFileGetVersion tells; 0: it does not
  bool has_driver = false;   // the module nvidia-fs is loaded
  bool is_direct() const {
    return has_library && has_driver;
  }
  static gds_probe of(const machine &where, const char *library = "libcufile.so.0");
};
finding describe(const gds_probe &probe);

// The GPU behind the CUDA plugin, as cuda_plugin_load() finds it, and where it is.
struct gpu_probe {
  std::string name;                // empty: none can be used
  std::string reason;              // why not
  bool plugin_is_missing = false;  // it does not load
  bool plugin_is_nowhere = false;  // for there is no file of it
  int numa_node = -1;
};
gpu_probe probe_gpu();
// Two lines: the GPU with its driver, and the plugin. `is_demanded`: TND_GFILE_DEVICE=cuda.
std::vector<finding> describe(const gpu_probe &probe, const machine &where, bool is_demanded);

// A plugin or library of ours that is built only where the packages it needs are installed.
struct optional_part {
  const char *topic;
  const char *file;
  bool is_configured;  // the build that this code is from has it among its targets
  const char *need;    // what a configuration includes it by
  const char *remedy;  // how to build with it
};
// The parts of this build.
optional_part cuda_part();
optional_part gfarm_part();
optional_part gluster_part();
optional_part provider_part();
optional_part pmix_part();
optional_part global_arrays_part();

// Its file is nowhere: it was left out of this build, or it was not built or installed. `effect`:
// what does not work without it.
finding describe_missing(const optional_part &part, finding_state state, const std::string &effect);

// A store in a plugin: it loads, or why not. `package` has the library that the plugin loads.
finding probe_store(const optional_part &part, const char *package);

// libo2g-fi.so at this path ("": it is not installed), and FI_PROVIDER_PATH as libfabric reads it
// (may be null).
finding probe_provider(const std::string &path, const char *provider_path);
// The plugins and libraries at these paths; "": not installed.
finding probe_pmix(const std::string &path);
finding probe_global_arrays(const std::string &path);
// A launcher of processes in the folders of this list, as PATH is one.
finding probe_launcher(const char *search_path);
// What Global Arrays larger than memory watch pages with.
finding probe_userfaultfd();
// These five, on this machine.
std::vector<finding> probe_products();

// All of them, on this machine.
std::vector<finding> probe_all(const machine &where);

}  // namespace tanada::port
