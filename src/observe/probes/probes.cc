// Probes of the kernel and hardware: RDMA, io_uring, huge pages, NUMA, shared memory, limits,
// settings.
#include "observe/probes/probes.hpp"

#include <liburing.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "core/base/settings.hpp"

namespace tanada::observe {
namespace {

std::string first_line(const std::string &path) {
  std::string line;
  std::ifstream file{path};
  std::getline(file, line);
  return line;
}

std::vector<std::string> names_in(const std::string &folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto const &entry : std::filesystem::directory_iterator{folder, error})
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string joined(const std::vector<std::string> &names) {
  std::string text;
  for (auto const &name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string size_text(uint64_t size) {
  char text[32];
  if (size >= 1ull << 30)
    std::snprintf(text, sizeof text, "%.1f GiB", double(size) / double(1ull << 30));
  else if (size >= 1ull << 20)
    std::snprintf(text, sizeof text, "%.1f MiB", double(size) / double(1ull << 20));
  else
    std::snprintf(text, sizeof text, "%llu KiB", (unsigned long long)size >> 10);
  return text;
}

// A field of /proc/meminfo; 0 if it is missing.
uint64_t memory_field(const system_root &root, std::string_view name) {
  std::ifstream file{root.path("/proc/meminfo")};
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ':')
      return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10);
  return 0;
}

}  // namespace

finding probe_rdma(const system_root &root) {
  std::string const folder = root.path("/sys/class/infiniband");
  std::vector<std::string> active, idle;
  for (auto const &device : names_in(folder))
    for (auto const &port : names_in(folder + "/" + device + "/ports")) {
      bool const is_active =
          first_line(folder + "/" + device + "/ports/" + port + "/state").ends_with("ACTIVE");
      (is_active ? active : idle).push_back(device + ":" + port);
    }
  if (!active.empty())
    return {"RDMA", finding_state::good, "active ports: " + joined(active), {}};
  if (!idle.empty())
    return {"RDMA",
            finding_state::lacking,
            "no port is active: " + joined(idle),
            "rdma link show; plug in or bring up the link"};
  return {"RDMA",
          finding_state::lacking,
          "no device in /sys/class/infiniband: only jobs on several nodes use RDMA, files do not",
          "install a network adapter with RDMA, then: apt-get install rdma-core"};
}

finding probe_io_uring(const system_root &root) {
  std::string const disabled = first_line(root.path("/proc/sys/kernel/io_uring_disabled"));
  if (disabled == "2" || disabled == "1")
    return {"io_uring",
            finding_state::lacking,
            "kernel.io_uring_disabled is " + disabled +
                (disabled == "1" ? ": only a privileged group may use it" : "") +
                "; files are read by threads instead",
            "sysctl -w kernel.io_uring_disabled=0"};
  io_uring ring;
  int const code = io_uring_queue_init(4, &ring, 0);
  if (code == 0) {
    io_uring_queue_exit(&ring);
    return {"io_uring", finding_state::good, "works", {}};
  }
  bool const is_refused = code == -EPERM || code == -EACCES;
  std::string const remedy =
      is_refused        ? "allow the system calls io_uring_* in the container's seccomp profile"
      : code == -ENOMEM ? "raise the locked-memory limit: ulimit -l unlimited"
                        : "a Linux of 5.10 or newer";
  return {"io_uring",
          finding_state::lacking,
          std::string("the kernel refuses it: ") + std::strerror(-code) +
              "; files are read by threads instead",
          remedy};
}

finding probe_huge_pages(const system_root &root) {
  uint64_t const total = memory_field(root, "HugePages_Total"),
                 free = memory_field(root, "HugePages_Free");
  std::string const modes = first_line(root.path("/sys/kernel/mm/transparent_hugepage/enabled"));
  size_t const open = modes.find('['), close = modes.find(']');
  bool const has_mode = open != std::string::npos && close != std::string::npos && close > open;
  std::string const mode = has_mode ? modes.substr(open + 1, close - open - 1) : "absent";
  std::string const text =
      std::to_string(free) + " of " + std::to_string(total) + " reserved pages of " +
      size_text(memory_field(root, "Hugepagesize") * 1024) + " free; transparent: " + mode;
  if (mode == "always" || mode == "madvise" || free > 0)
    return {"huge pages", finding_state::good, text, {}};
  return {"huge pages",
          finding_state::lacking,
          text,
          "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, or sysctl -w "
          "vm.nr_hugepages=512"};
}

finding probe_numa(const system_root &root, int gpu_node) {
  std::vector<std::string> nodes;
  for (auto const &name : names_in(root.path("/sys/devices/system/node"))) {
    bool const is_node = name.starts_with("node") && name.size() > 4 &&
                         name.find_first_not_of("0123456789", 4) == std::string::npos;
    if (is_node)
      nodes.push_back(name.substr(4) + " (processors " +
                      first_line(root.path("/sys/devices/system/node/") + name + "/cpulist") + ")");
  }
  std::string text = nodes.empty() ? "the kernel reports no nodes" : "nodes " + joined(nodes);
  if (gpu_node >= 0)
    text += "; the GPU is attached to node " + std::to_string(gpu_node);
  return {"NUMA", finding_state::good, text, {}};
}

finding probe_shared_memory(const system_root &root) {
  struct statvfs file_system{};
  if (statvfs(root.path("/dev/shm").c_str(), &file_system) != 0)
    return {"/dev/shm",
            finding_state::lacking,
            std::string("cannot be used: ") + std::strerror(errno),
            "mount -t tmpfs tmpfs /dev/shm"};
  uint64_t const total = uint64_t(file_system.f_blocks) * file_system.f_frsize,
                 free = uint64_t(file_system.f_bavail) * file_system.f_frsize;
  std::string const text = size_text(free) + " of " + size_text(total) + " free";
  if (free >= 64ull << 20)
    return {"/dev/shm", finding_state::good, text, {}};
  return {"/dev/shm",
          finding_state::lacking,
          text + ": little free space for files in memory",
          "mount -o remount,size=8G /dev/shm; in a container: --shm-size=8g"};
}

finding probe_limits_memory(uint64_t locked_max) {
  if (locked_max == ~uint64_t{0})
    return {"locked memory", finding_state::good, "no limit", {}};
  std::string const text = "at most " + size_text(locked_max);
  if (locked_max >= 64ull << 20)
    return {"locked memory", finding_state::good, text, {}};
  return {"locked memory",
          finding_state::lacking,
          text + ": RDMA and older kernels' io_uring need more",
          "ulimit -l unlimited, or in /etc/security/limits.conf: * - memlock unlimited"};
}

finding probe_limits_files(uint64_t open_max) {
  std::string const text = "at most " + (open_max == ~uint64_t{0} ? std::string{"any number"}
                                                                  : std::to_string(open_max));
  if (open_max >= 4096)
    return {"open files", finding_state::good, text, {}};
  bool const too_few = open_max < 64;
  return {"open files",
          too_few ? finding_state::broken : finding_state::lacking,
          text + (too_few ? ": too few for an instance"
                          : ": TND_GFILE_FILE_COUNT_MAX of 4096 would not fit"),
          "ulimit -n 65536, or in /etc/security/limits.conf: * - nofile 65536"};
}

std::vector<finding> probe_settings() {
  std::vector<finding> findings;
  for (const std::string &fault : setting_faults()) {
    findings.push_back(
        {"settings", finding_state::broken, fault, "every product refuses to start"});
  }
  if (findings.empty())
    findings.push_back({"settings", finding_state::good, "every TND_ variable is known", {}});
  return findings;
}

namespace {

std::vector<finding> probe_limits() {
  struct rlimit locked{}, open{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  getrlimit(RLIMIT_NOFILE, &open);
  auto const limit = [](rlim_t value) {
    return value == RLIM_INFINITY ? ~uint64_t{0} : uint64_t(value);
  };
  return {probe_limits_memory(limit(locked.rlim_cur)), probe_limits_files(limit(open.rlim_cur))};
}

}  // namespace

std::vector<finding> probe_all(const system_root &root) {
  const char *const device = std::getenv("TND_GFILE_DEVICE");
  gpu_probe const gpu = probe_gpu();
  std::vector<finding> findings =
      describe(gpu, root, device != nullptr && std::strcmp(device, "cuda") == 0);
  findings.push_back(describe(gds_probe::run(root)));
  findings.push_back(probe_rdma(root));
  findings.push_back(probe_io_uring(root));
  findings.push_back(probe_store(gfarm_part(), "libgfarm1"));
  findings.push_back(probe_store(gluster_part(), "libgfapi0"));
  findings.push_back(probe_huge_pages(root));
  findings.push_back(probe_numa(root, gpu.numa_node));
  findings.push_back(probe_shared_memory(root));
  for (finding &limit_found : probe_limits())
    findings.push_back(std::move(limit_found));
  for (finding &limit_found : probe_administration(root))
    findings.push_back(std::move(limit_found));
  for (finding &product : probe_products())
    findings.push_back(std::move(product));
  for (finding &fault : probe_settings())
    findings.push_back(std::move(fault));
  return findings;
}

}  // namespace tanada::observe
