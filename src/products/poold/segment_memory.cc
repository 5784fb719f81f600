// The memory of the pool's segments: allocation, export to clients, and return to the system.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "core/base/log.hpp"
#include "seams/os/huge_pages.hpp"
#include "products/poold/pool_memory.hpp"

namespace tanada::poold {
namespace {

struct memory_info {
  // Bytes that can be populated without reclaim, reserved huge pages included. The largest number
  // where the kernel does not report it.
  uint64_t available = ~uint64_t{0};
  uint64_t huge_page_size = 0;
};

memory_info read_memory_info() {
  std::ifstream lines{"/proc/meminfo"};
  uint64_t available = 0, huge_page_count = 0;
  memory_info info;
  for (std::string line; std::getline(lines, line);) {
    size_t const colon = line.find(':');
    if (colon == std::string::npos)
      continue;
    uint64_t const value = std::strtoull(line.c_str() + colon + 1, nullptr, 10);
    std::string const name = line.substr(0, colon);
    if (name == "MemAvailable")
      available = value << 10;
    else if (name == "HugePages_Free")
      huge_page_count = value;
    else if (name == "Hugepagesize")
      info.huge_page_size = value << 10;
  }
  if (available != 0)
    info.available = available + huge_page_count * info.huge_page_size;
  return info;
}

// The size of the pages that MFD_HUGETLB uses.
uint64_t huge_page_size() {
  return std::max(read_memory_info().huge_page_size, pool_memory::granule_min);
}

// Half of the descriptors and mappings that a process may have: clients and threads need the rest.
uint32_t segment_count_max() {
  constexpr uint32_t mapping_count_max = 32768;  // half of 65530, the kernel's default
  struct rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0)
    return mapping_count_max;
  return uint32_t(std::min<uint64_t>(descriptors.rlim_cur / 2, mapping_count_max));
}

// Populate memory, with huge pages if the kernel has any. False: it failed, and errno is set.
bool populate_pages(std::byte *addr, uint64_t size, bool &has_huge_pages) {
  has_huge_pages = size % seams::huge_page_size == 0 && seams::make_huge_pages(addr, size);
  return has_huge_pages || madvise(addr, size, MADV_POPULATE_WRITE) == 0;
}

// Populating more than the available memory would make the kernel kill this or another process.
status check_memory(const memory_options &options) {
  if (!options.prefault || !options.file.empty())
    return status::ok;
  uint64_t const available =
      options.available_size != 0 ? options.available_size : read_memory_info().available;
  if (options.capacity <= available)
    return status::ok;
  return fail(status::no_memory,
              "a pool of %llu MiB needs more than the %llu MiB of available memory: give a smaller "
              "--size",
              static_cast<unsigned long long>(options.capacity >> 20),
              static_cast<unsigned long long>(available >> 20));
}

}  // namespace

result<std::unique_ptr<pool_memory>> pool_memory::create(const memory_options &options) {
  bool const good = options.segment_size >= (2 << 20) &&
                    (options.segment_size & (options.segment_size - 1)) == 0 &&
                    options.capacity > 0 && options.capacity <= uint64_t{1} << 50;
  if (!good)
    return fail(status::invalid,
                "a pool has 1 byte to 1 PiB in segments of a power of two, 2 MiB at least");
  TND_TRY(check_memory(options));
  std::unique_ptr<pool_memory> memory{new pool_memory{options}};
  uint64_t const count = (options.capacity + options.segment_size - 1) / options.segment_size;
  memory->capacity_ = count * options.segment_size;
  if (options.segment_count_max == 0)
    memory->options_.segment_count_max = segment_count_max();
  if (!options.file.empty()) {
    auto file = backing_file::open(options.file, count * options.segment_size);
    if (!file.ok())
      return file.error();
    memory->file_ = std::move(file).value();
  }
  TND_TRY(memory->create_segments(count));
  return memory;
}

// Populating clears the pages, which is work for all processors.
status pool_memory::create_segments(uint64_t count) {
  for (uint32_t i = 0; i < count; i++)
    segments_[i].size = options_.segment_size;
  std::atomic<uint64_t> next_index{0};
  std::atomic<status> first_error{status::ok};
  std::mutex message_mutex;
  std::string message;
  auto const work = [&] {
    for (uint64_t i = next_index.fetch_add(1); i < count && first_error.load() == status::ok;
         i = next_index.fetch_add(1)) {
      status const code = make_memory(segments_.at(uint32_t(i)), i * options_.segment_size);
      if (code == status::ok)
        continue;
      std::lock_guard lock{message_mutex};
      first_error.store(code);
      message = last_message();
    }
  };
  std::vector<std::thread> helpers;
  unsigned const thread_count = std::min(std::thread::hardware_concurrency(), 16u);
  for (unsigned i = 1; i < thread_count; i++)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
  if (first_error.load() != status::ok) {
    set_last_message(message);
    return first_error.load();
  }
  for (auto const &[number, seg] : segments_) {
    if (seg.is_huge)
      granule_ = huge_page_size();
    insert_unowned(number);
  }
  next_number_ = uint32_t(count);
  return status::ok;
}

pool_memory::~pool_memory() {
  for (auto const &[number, seg] : segments_) {
    if (seg.addr != nullptr && file_ == nullptr)
      munmap(seg.addr, seg.size);
    if (seg.descriptor >= 0)
      close(seg.descriptor);
  }
}

status pool_memory::make_memory(segment &target, uint64_t file_offset) {
  uint64_t const size = target.size;
  if (file_ != nullptr) {
    auto mapped = file_->map(file_offset, size, options_.prefault);
    if (!mapped.ok())
      return mapped.error();
    target.addr = mapped.value();
    return status::ok;
  }
  // Use reserved huge pages if there are any, else ordinary memory.
  for (bool const huge : {true, false}) {
    if (huge && size % (uint64_t{2} << 20) != 0)
      continue;
    unsigned const flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0);
    int const descriptor = memfd_create("tanada-pool", flags);
    if (descriptor < 0)
      continue;
    bool const sized = ftruncate(descriptor, off_t(size)) == 0 && fchmod(descriptor, 0400) == 0;
    void *const mapped =
        sized ? seams::map_file_part({descriptor, 0, size}, PROT_READ | PROT_WRITE) : nullptr;
    if (mapped == nullptr) {
      close(descriptor);
      continue;
    }
    auto *const addr = static_cast<std::byte *>(mapped);
    if (!huge)
      madvise(addr, size, MADV_HUGEPAGE);
    bool has_huge_pages = false;
    if (options_.prefault && !populate_pages(addr, size, has_huge_pages)) {
      int const error = errno;
      munmap(addr, size);
      close(descriptor);
      errno = error;
      continue;
    }
    target.addr = addr;
    target.descriptor = descriptor;
    target.is_huge = huge;
    target.has_huge_pages = huge || has_huge_pages;
    return status::ok;
  }
  return fail(status::no_memory, "a segment of %llu bytes: %s",
              static_cast<unsigned long long>(size), std::strerror(errno));
}

bool pool_memory::may_drop(const segment &old, uint64_t timeout_ns) {
  if (!drop_hook_ || old.owner == no_owner)
    return true;
  return drop_hook_(old.addr, old.size, timeout_ns);
}

// Cut off the segment's end. False: the segment is unchanged.
bool pool_memory::shrink(segment &target, uint64_t size) {
  if (ftruncate(target.descriptor, off_t(size)) != 0)
    return false;
  munmap(target.addr + size, target.size - size);
  target.size = size;
  return true;
}

// Punch a hole, so that the pages return to the system even while clients still map the segment.
void pool_memory::drop_memory(segment &old) {
  munmap(old.addr, old.size);
  (void)fallocate(old.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, off_t(old.size));
  close(old.descriptor);
  old.addr = nullptr;
  old.descriptor = -1;
}

result<segment_view> pool_memory::export_segment(uint64_t owner, uint32_t number, bool writable) {
  if (!is_exportable())
    return status::not_supported;
  std::lock_guard lock{mutex_};
  auto const it = segments_.find(number);
  if (it == segments_.end() || it->second.owner != owner)
    return status::no_entry;
  segment &seg = it->second;
  // The seals keep the daemon and clients from resizing a mapped segment. A read-only descriptor
  // cannot be reopened for writing, because the file's mode forbids that.
  constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (!seg.is_exported && fcntl(seg.descriptor, F_ADD_SEALS, seals) != 0) {
    return fail(status::io, "sealing a segment of the pool failed: %s", std::strerror(errno));
  }
  seg.is_exported = true;
  // Open it under the lock: the descriptor is closed once the segment's memory is recreated.
  std::string const path = "/proc/self/fd/" + std::to_string(seg.descriptor);
  int const descriptor = writable ? fcntl(seg.descriptor, F_DUPFD_CLOEXEC, 0)
                                  : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return status::too_many_files;
  bool const has_huge_pages = seg.has_huge_pages && seg.size % seams::huge_page_size == 0;
  return segment_view{descriptor, seg.size, 0, has_huge_pages};
}

std::vector<uint32_t> pool_memory::reserve_segments(uint64_t owner, uint64_t size) {
  std::vector<uint32_t> whole, parts;
  if (!is_exportable())
    return whole;
  std::lock_guard lock{mutex_};
  uint64_t listed_size = 0;
  auto const is_enough = [&] {
    return listed_size >= size || whole.size() + parts.size() >= reserve_count_max;
  };
  std::set<uint32_t> listed;
  if (auto const owned_it = owned_.find(owner); owned_it != owned_.end()) {
    auto const &free = owned_it->second.free;
    for (auto it = free.rbegin(); it != free.rend() && !is_enough(); ++it) {
      if (segments_.at(it->segment).size < seams::huge_page_size)
        continue;
      listed_size += it->size;
      if (listed.insert(it->segment).second)
        parts.push_back(it->segment);
    }
  }
  uint64_t const whole_size = options_.segment_size;
  std::vector<uint32_t> fresh, previous;
  for (auto const &[free_size, number] : unowned_) {
    if (free_size != whole_size)
      continue;
    uint64_t const last_owner = segments_.at(number).owner;
    if (last_owner == no_owner)
      fresh.push_back(number);
    if (last_owner == owner)
      previous.push_back(number);
  }
  auto const list_whole = [&](uint32_t number) {
    listed_size += whole_size;
    whole.push_back(number);
  };
  for (uint32_t const number : previous) {
    if (!is_enough())
      list_whole(number);
  }
  // Other owners would have to recreate segments that this one maps, so half stays for them.
  size_t const own_count_max = (fresh.size() + previous.size() + 1) / 2;
  size_t rest_count = own_count_max - std::min(previous.size(), own_count_max);
  for (uint32_t const number : fresh) {
    if (rest_count == 0 || is_enough())
      break;
    erase_unowned(number);
    segments_.at(number).owner = owner;
    insert_unowned(number);
    list_whole(number);
    rest_count--;
  }
  whole.insert(whole.end(), parts.begin(), parts.end());
  return whole;
}

}  // namespace tanada::poold
