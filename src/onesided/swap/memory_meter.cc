#include "onesided/swap/memory_meter.hpp"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

namespace tanada::comex::swap {
namespace {

constexpr uint64_t kibibyte = 1024;
constexpr uint64_t look_period_ns = 5'000'000, measure_period_ns = 50'000'000;

using file_ptr = std::unique_ptr<std::FILE, int (*)(std::FILE *)>;

file_ptr open_text(const char *path) {
  return {std::fopen(path, "re"), std::fclose};
}

bool is_in_memory(const char *path) {
  struct statfs about{};
  if (std::strncmp(path, "/memfd:", 7) == 0 || std::strncmp(path, "/SYSV", 5) == 0 ||
      std::strncmp(path, "/dev/zero", 9) == 0)
    return true;
  return statfs(path, &about) != 0 || about.f_type == TMPFS_MAGIC;
}

// A line of smaps that begins a mapping which others may write to, and which lies on no disk.
bool is_shared_memory(const char *line) {
  char permissions[8] = {}, path[512] = {};
  if (std::sscanf(line, "%*x-%*x %7s %*x %*s %*u %511[^\n]", permissions, path) < 2)
    return false;
  return permissions[3] == 's' && std::strncmp(path, "/memfd:tanada", 13) != 0 &&
         is_in_memory(path);
}

}  // namespace

uint64_t private_size_of(int32_t process_id) {
  auto const file = open_text(("/proc/" + std::to_string(process_id) + "/status").c_str());
  if (!file)
    return 0;
  uint64_t sum = 0;
  char line[256];
  while (std::fgets(line, sizeof line, file.get()) != nullptr) {
    unsigned long long size = 0;
    if (std::sscanf(line, "RssAnon: %llu kB", &size) == 1 ||
        std::sscanf(line, "VmPTE: %llu kB", &size) == 1)
      sum += size * kibibyte;
  }
  return sum;
}

uint64_t shared_size_of_others() {
  auto const file = open_text("/proc/self/smaps");
  if (!file)
    return 0;
  uint64_t sum = 0;
  bool is_counted = false;
  char line[1024];
  while (std::fgets(line, sizeof line, file.get()) != nullptr) {
    unsigned long long size = 0;
    bool const is_field = std::strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ", line[0]) != nullptr;
    if (!is_field)
      is_counted = is_shared_memory(line);
    else if (is_counted && std::sscanf(line, "Pss: %llu kB", &size) == 1)
      sum += size * kibibyte;
  }
  return sum;
}

uint64_t used_size_of(int descriptor) noexcept {
  struct stat about{};
  constexpr uint64_t block = 512;  // bytes, of stat(2)
  return fstat(descriptor, &about) == 0 ? uint64_t(about.st_blocks) * block : 0;
}

memory_meter::memory_meter(board &shared, std::vector<int> descriptors, const options &chosen)
    : shared_{shared},
      descriptors_{std::move(descriptors)},
      options_{chosen},
      private_sizes_(descriptors_.size()),
      is_known_(descriptors_.size()) {
  for (int const descriptor : descriptors_)
    before_.push_back(used_size_of(descriptor));
}

void memory_meter::look() {
  uint64_t const now_ns = shared_.time().now_ns();
  if (looked_ns_ != 0 && now_ns - looked_ns_ < look_period_ns)
    return;
  looked_ns_ = now_ns;
  if (measured_ns_ == 0 || now_ns - measured_ns_ >= measure_period_ns) {
    measured_ns_ = now_ns;
    for (uint32_t rank = 0; rank < private_sizes_.size(); rank++) {
      int32_t const process_id = shared_.process_of(rank);
      uint64_t const size = process_id == 0 ? 0 : private_size_of(process_id);
      if (size != 0)
        is_known_[rank] = true;
      private_sizes_[rank] = size;
    }
  }
  uint64_t fixed = options_.constant_size, sum = 0;
  for (uint64_t const size : private_sizes_)
    fixed += size;
  bool const are_all_known =
      std::find(is_known_.begin(), is_known_.end(), false) == is_known_.end();
  if (options_.reserves && are_all_known)
    shared_.reserve_set(fixed + shared_.options().cache_size);
  for (size_t rank = 0; rank < descriptors_.size(); rank++) {
    uint64_t const used = used_size_of(descriptors_[rank]);
    sum += used - std::min(used, before_[rank]);
  }
  auto &peak = shared_.counters().peak_size;
  peak.store(std::max(peak.load(std::memory_order_relaxed), fixed + sum),
             std::memory_order_relaxed);
}

}  // namespace tanada::comex::swap
