// Measurement of memory from /proc and from the files of heaps.
#include "onesided/swap/memory_meter.hpp"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

namespace tanada::onesided::swap {
namespace {

constexpr uint64_t kibibyte = 1024;
constexpr uint64_t update_period_ns = 5'000'000, measure_period_ns = 50'000'000;

using file_ptr = std::unique_ptr<std::FILE, int (*)(std::FILE *)>;

file_ptr open_text(const char *path) {
  return {std::fopen(path, "re"), std::fclose};
}

bool is_in_memory(const char *path) {
  struct statfs info{};
  if (std::strncmp(path, "/memfd:", 7) == 0 || std::strncmp(path, "/SYSV", 5) == 0 ||
      std::strncmp(path, "/dev/zero", 9) == 0)
    return true;
  return statfs(path, &info) != 0 || info.f_type == TMPFS_MAGIC;
}

// Whether a line of smaps begins a mapping that others may write to, and that has no disk.
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

uint64_t other_shared_size() {
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
  struct stat info{};
  constexpr uint64_t block = 512;  // bytes, of stat(2)
  return fstat(descriptor, &info) == 0 ? uint64_t(info.st_blocks) * block : 0;
}

memory_meter::memory_meter(node_table &table, std::vector<int> descriptors, const options &chosen)
    : table_{table},
      descriptors_{std::move(descriptors)},
      options_{chosen},
      private_sizes_(descriptors_.size()),
      is_known_(descriptors_.size()) {
  TND_ASSERT(descriptors_.size() <= table.rank_count());
  for (int const descriptor : descriptors_)
    initial_sizes_.push_back(used_size_of(descriptor));
}

void memory_meter::update() {
  uint64_t const now_ns = table_.time().now_ns();
  if (updated_ns_ != 0 && now_ns - updated_ns_ < update_period_ns)
    return;
  updated_ns_ = now_ns;
  if (measured_ns_ == 0 || now_ns - measured_ns_ >= measure_period_ns) {
    measured_ns_ = now_ns;
    for (uint32_t rank = 0; rank < private_sizes_.size(); rank++) {
      int32_t const process_id = table_.process_id_of(rank);
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
    table_.set_reserved(fixed + table_.options().cache_size);
  for (size_t rank = 0; rank < descriptors_.size(); rank++) {
    uint64_t const used = used_size_of(descriptors_[rank]);
    sum += used - std::min(used, initial_sizes_[rank]);
  }
  auto &peak = table_.counters().peak_size;
  peak.store(std::max(peak.load(std::memory_order_relaxed), fixed + sum),
             std::memory_order_relaxed);
}

}  // namespace tanada::onesided::swap
