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

namespace tanada::port {
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
  std::string all;
  for (auto const &each : names)
    all += (all.empty() ? "" : ", ") + each;
  return all;
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

// A field of /proc/meminfo; 0 where it is missing.
uint64_t memory_field(const machine &where, std::string_view name) {
  std::ifstream file{where.path("/proc/meminfo")};
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ':')
      return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10);
  return 0;
}

}  // namespace

finding probe_rdma(const machine &where) {
  std::string const folder = where.path("/sys/class/infiniband");
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
    return {"RDMA", finding_state::lacking, "no port is active: " + joined(idle),
            "rdma link show; plug in or bring up the link"};
  return {"RDMA", finding_state::lacking,
          "no device in /sys/class/infiniband: RDMA is for several nodes, files need none",
          "a network card with RDMA and: apt-get install rdma-core"};
}

finding probe_io_uring(const machine &where) {
  std::string const disabled = first_line(where.path("/proc/sys/kernel/io_uring_disabled"));
  if (disabled == "2" || disabled == "1")
    return {"io_uring", finding_state::lacking,
            "kernel.io_uring_disabled is " + disabled +
                (disabled == "1" ? ": only a privileged group may" : "") +
                "; files are read by threads instead",
            "sysctl -w kernel.io_uring_disabled=0"};
  io_uring ring;
  int const made = io_uring_queue_init(4, &ring, 0);
  if (made == 0) {
    io_uring_queue_exit(&ring);
    return {"io_uring", finding_state::good, "works", {}};
  }
  bool const is_refused = made == -EPERM || made == -EACCES;
  std::string const remedy =
      is_refused        ? "allow the system calls io_uring_* in the container's seccomp profile"
      : made == -ENOMEM ? "raise the locked-memory limit: ulimit -l unlimited"
                        : "a Linux of 5.10 or newer";
  return {"io_uring", finding_state::lacking,
          std::string("the kernel refuses it: ") + std::strerror(-made) +
              "; files are read by threads instead",
          remedy};
}

finding probe_huge_pages(const machine &where) {
  uint64_t const total = memory_field(where, "HugePages_Total"),
                 free = memory_field(where, "HugePages_Free");
  std::string const modes = first_line(where.path("/sys/kernel/mm/transparent_hugepage/enabled"));
  size_t const open = modes.find('['), close = modes.find(']');
  bool const has_mode = open != std::string::npos && close != std::string::npos && close > open;
  std::string const mode = has_mode ? modes.substr(open + 1, close - open - 1) : "absent";
  std::string const text =
      std::to_string(free) + " of " + std::to_string(total) + " reserved pages of " +
      size_text(memory_field(where, "Hugepagesize") * 1024) + " free; transparent: " + mode;
  if (mode == "always" || mode == "madvise" || free > 0)
    return {"huge pages", finding_state::good, text, {}};
  return {"huge pages", finding_state::lacking, text,
          "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, or sysctl -w "
          "vm.nr_hugepages=512"};
}

finding probe_numa(const machine &where, int gpu_node) {
  std::vector<std::string> nodes;
  for (auto const &name : names_in(where.path("/sys/devices/system/node"))) {
    bool const is_node = name.starts_with("node") && name.size() > 4 &&
                         name.find_first_not_of("0123456789", 4) == std::string::npos;
    if (is_node)
      nodes.push_back(name.substr(4) + " (processors " +
                      first_line(where.path("/sys/devices/system/node/") + name + "/cpulist") +
                      ")");
  }
  std::string text = nodes.empty() ? "the kernel tells of no nodes" : "nodes " + joined(nodes);
  if (gpu_node >= 0)
    text += "; the GPU is near node " + std::to_string(gpu_node);
  return {"NUMA", finding_state::good, text, {}};
}

finding probe_shared_memory(const machine &where) {
  struct statvfs seen{};
  if (statvfs(where.path("/dev/shm").c_str(), &seen) != 0)
    return {"/dev/shm", finding_state::lacking,
            std::string("cannot be used: ") + std::strerror(errno),
            "mount -t tmpfs tmpfs /dev/shm"};
  uint64_t const total = uint64_t(seen.f_blocks) * seen.f_frsize,
                 free = uint64_t(seen.f_bavail) * seen.f_frsize;
  std::string const text = size_text(free) + " of " + size_text(total) + " free";
  if (free >= 64ull << 20)
    return {"/dev/shm", finding_state::good, text, {}};
  return {"/dev/shm", finding_state::lacking, text + ": little room for files in memory",
          "mount -o remount,size=8G /dev/shm; in a container: --shm-size=8g"};
}

finding probe_limits_memory(uint64_t locked_max) {
  if (locked_max == ~uint64_t{0})
    return {"locked memory", finding_state::good, "no limit", {}};
  std::string const text = "at most " + size_text(locked_max);
  if (locked_max >= 64ull << 20)
    return {"locked memory", finding_state::good, text, {}};
  return {"locked memory", finding_state::lacking,
          text + ": RDMA and older kernels' io_uring need more",
          "ulimit -l unlimited, or in /etc/security/limits.conf: * - memlock unlimited"};
}

finding probe_limits_files(uint64_t open_max) {
  std::string const text = "at most " + (open_max == ~uint64_t{0} ? std::string{"any number"}
                                                                  : std::to_string(open_max));
  if (open_max >= 4096)
    return {"open files", finding_state::good, text, {}};
  bool const too_few = open_max < 64;
  return {"open files", too_few ? finding_state::broken : finding_state::lacking,
          text + (too_few ? ": too few for an instance"
                          : ": TND_GFILE_FILE_COUNT_MAX of 4096 would not fit"),
          "ulimit -n 65536, or in /etc/security/limits.conf: * - nofile 65536"};
}

std::vector<finding> probe_settings() {
  std::vector<finding> found;
  for (const std::string &fault : setting_faults()) {
    found.push_back({"settings", finding_state::broken, fault, "every product refuses to start"});
  }
  if (found.empty())
    found.push_back({"settings", finding_state::good, "every TND_ variable is known", {}});
  return found;
}

std::vector<finding> probe_all(const machine &where) {
  const char *const device = std::getenv("TND_GFILE_DEVICE");
  gpu_probe const gpu = probe_gpu();
  std::vector<finding> all =
      describe(gpu, where, device != nullptr && std::strcmp(device, "cuda") == 0);
  all.push_back(describe(gds_probe::of(where)));
  all.push_back(probe_rdma(where));
  all.push_back(probe_io_uring(where));
  all.push_back(probe_store(gfarm_part(), "libgfarm1"));
  all.push_back(probe_store(gluster_part(), "libgfapi0"));
  all.push_back(probe_huge_pages(where));
  all.push_back(probe_numa(where, gpu.numa_node));
  all.push_back(probe_shared_memory(where));
  struct rlimit locked{}, open{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  getrlimit(RLIMIT_NOFILE, &open);
  auto const limit = [](rlim_t value) {
    return value == RLIM_INFINITY ? ~uint64_t{0} : uint64_t(value);
  };
  all.push_back(probe_limits_memory(limit(locked.rlim_cur)));
  all.push_back(probe_limits_files(limit(open.rlim_cur)));
  for (finding &product : probe_products())
    all.push_back(std::move(product));
  for (finding &fault : probe_settings())
    all.push_back(std::move(fault));
  return all;
}

}  // namespace tanada::port
