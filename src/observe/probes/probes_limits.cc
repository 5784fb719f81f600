// Probes of what the node's administrator decides: control groups, kernel modules, the compiler.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "observe/probes/probes.hpp"

namespace tanada::observe {
namespace {

constexpr uint64_t process_limit_min = 512;  // a daemon and a job of a node have that many threads
constexpr uint64_t memory_limit_min = 512ull << 20;

// The number in a file; empty for "max" and for a file that is missing.
std::optional<uint64_t> limit_in(const std::string &path) {
  std::string word;
  std::ifstream{path} >> word;
  uint64_t value = 0;
  auto const parsed = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || parsed.ec != std::errc{} || parsed.ptr != word.data() + word.size())
    return {};
  return value;
}

// The smallest limit of a control group and of those above it.
std::optional<uint64_t> limit_of_group(const system_root &root,
                                       const std::string &group,
                                       const char *file) {
  std::optional<uint64_t> smallest;
  std::filesystem::path below{group};
  while (true) {
    std::string const folder = root.path("/sys/fs/cgroup") + below.string();
    if (auto const limit = limit_in(folder + "/" + file); limit)
      smallest = std::min(*limit, smallest.value_or(*limit));
    if (!below.has_relative_path())
      return smallest;
    below = below.parent_path();
  }
}

// The group of version 2 that this process is in.
std::string group_of_process(const system_root &root) {
  constexpr std::string_view prefix = "0::";
  std::ifstream file{root.path("/proc/self/cgroup")};
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(prefix))
      return line.substr(prefix.size());
  return "/";
}

std::string mebibytes(uint64_t size) {
  return std::to_string(size >> 20) + " MiB";
}

bool is_program(const std::string &path) {
  using std::filesystem::perms;
  std::error_code error;
  auto const attributes = std::filesystem::status(path, error);
  constexpr perms executable = perms::owner_exec | perms::group_exec | perms::others_exec;
  return std::filesystem::is_regular_file(attributes) &&
         (attributes.permissions() & executable) != perms{};
}

}  // namespace

finding probe_cgroup(const system_root &root) {
  std::string const group = group_of_process(root);
  auto memory = limit_of_group(root, group, "memory.max");
  if (!memory)
    memory = limit_in(root.path("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  constexpr uint64_t unlimited_v1 = 1ull << 60;  // version 1 has a large number for no limit
  bool const has_memory_limit = memory && *memory < unlimited_v1;
  auto const processes = limit_of_group(root, group, "pids.max");
  std::string text = has_memory_limit
                         ? "memory: at most " + mebibytes(*memory) + ", pools and heaps included"
                         : "memory: no limit";
  text += processes ? "; processes and threads: at most " + std::to_string(*processes)
                    : "; processes and threads: no limit";
  if (has_memory_limit && *memory < memory_limit_min)
    return {"cgroup",
            finding_state::lacking,
            text,
            "raise memory.max: MemoryMax= of the unit, --memory of the container, --mem of SLURM"};
  if (processes && *processes < process_limit_min)
    return {"cgroup",
            finding_state::lacking,
            text,
            "raise pids.max: TasksMax= of the unit, or --pids-limit of the container"};
  return {"cgroup", finding_state::good, text, {}};
}

finding probe_device_modules(const system_root &root) {
  auto const is_loaded = [&root](const char *name) {
    std::error_code failed;
    return std::filesystem::exists(root.path("/sys/module/") + name, failed);
  };
  std::string loaded;
  for (const char *const name :
       {"nvidia", "nvidia_uvm", "nvidia_fs", "nvidia_peermem", "gdrdrv", "o2g"})
    if (is_loaded(name))
      loaded += (loaded.empty() ? "" : ", ") + std::string{name};
  std::string const text = loaded.empty() ? "no module for GPUs is loaded" : "loaded: " + loaded;
  if (is_loaded("nvidia") && !is_loaded("nvidia_uvm"))
    return {"modules",
            finding_state::lacking,
            text + "; nvidia_uvm is missing, without which CUDA does not start",
            "modprobe nvidia-uvm"};
  std::error_code error;
  std::filesystem::path const adapters{root.path("/sys/class/infiniband")};
  bool const has_rdma =
      std::filesystem::exists(adapters, error) && !std::filesystem::is_empty(adapters, error);
  if (is_loaded("nvidia") && has_rdma && !is_loaded("nvidia_peermem"))
    return {"modules",
            finding_state::lacking,
            text + "; nvidia_peermem is missing: adapters reach GPU memory only by dmabuf",
            "modprobe nvidia-peermem"};
  return {"modules", finding_state::good, text, {}};
}

finding probe_nvcc(const system_root &root, const char *named, const char *search_path) {
  constexpr const char *topic = "nvcc";
  if (named != nullptr && *named != '\0') {
    if (is_program(named))
      return {topic, finding_state::good, std::string{named} + ", as CUDACXX has it", {}};
    return {topic,
            finding_state::lacking,
            std::string{"CUDACXX names "} + named + ", which is no program",
            "unset CUDACXX, or set it to nvcc"};
  }
  std::string folders = search_path == nullptr ? "" : search_path;
  folders += ":" + root.path("/usr/local/cuda/bin");
  for (size_t begin = 0; begin < folders.size();) {
    size_t const end = std::min(folders.find(':', begin), folders.size());
    std::string const path = folders.substr(begin, end - begin) + "/nvcc";
    if (end > begin && is_program(path))
      return {topic, finding_state::good, path, {}};
    begin = end + 1;
  }
  return {topic,
          finding_state::lacking,
          "not in PATH nor in /usr/local/cuda: kernels are compiled for processors, or by NVRTC",
          "make install CUDA=1 fetches it for the build; NVIDIA's repository has cuda-nvcc-13-0"};
}

std::vector<finding> probe_administration(const system_root &root) {
  return {probe_cgroup(root),
          probe_device_modules(root),
          probe_nvcc(root, std::getenv("CUDACXX"), std::getenv("PATH"))};
}

}  // namespace tanada::observe
