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

#include "core/base/assert.hpp"
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
  bool const can_be_huge = size % seams::huge_page_size == 0;
  has_huge_pages = can_be_huge && seams::make_huge_pages(addr, size);
  if (can_be_huge && !has_huge_pages) {
    log(log_level::debug,
        "pool: a segment of {} MiB has small pages: {}",
        size >> 20,
        std::strerror(errno));
  }
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
  return fail(
      status::no_memory,
      "a pool of {} MiB needs more than the {} MiB of available memory: give a smaller --size",
      options.capacity >> 20,
      available >> 20);
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
    auto file = backing_file::open(options.file, count * options.segment_size, options.persistent);
    if (!file.ok())
      return file.error();
    memory->file_ = std::move(file).value();
    memory->is_held_ = memory->file_->has_old_clients();
    if (memory->is_held())
      log(log_level::warning,
          "pool: clients of a previous daemon have {} mapped: nothing is written to it before they "
          "end or connect again",
          options.file);
  }
  TND_TRY(memory->create_segments(count));
  return memory;
}

status pool_memory::create_segments(uint64_t count) {
  segments created;
  for (uint32_t i = 0; i < count; i++)
    created[i].size = options_.segment_size;
  status const code = populate(created);
  lock_guard lock{mutex_};
  TND_ASSERT(segments_.empty());
  segments_ = std::move(created);  // also after a failure, so that the memory is returned
  TND_TRY(code);
  for (auto const &[number, seg] : segments_) {
    if (seg.is_huge)
      granule_ = huge_page_size();
    insert_unowned(number);
  }
  next_number_ = uint32_t(count);
  return status::ok;
}

// Populating clears the pages, which is work for all processors.
status pool_memory::populate(segments &created) {
  uint64_t const count = created.size();
  std::atomic<uint64_t> next_index{0};
  std::atomic<status> first_error{status::ok};
  mutex message_mutex;
  std::string message;
  auto const work = [&] {
    for (uint64_t i = next_index.fetch_add(1); i < count && first_error.load() == status::ok;
         i = next_index.fetch_add(1)) {
      status const code = make_memory(created.at(uint32_t(i)), i * options_.segment_size);
      if (code == status::ok)
        continue;
      lock_guard lock{message_mutex};
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
  if (first_error.load() != status::ok)
    set_last_message(message);
  return first_error.load();
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
  TND_ASSERT(target.addr == nullptr && target.size > 0);
  uint64_t const size = target.size;
  if (file_ != nullptr) {
    auto mapped = file_->map(file_offset, size, options_.prefault);
    if (!mapped.ok())
      return mapped.error();
    target.addr = mapped.value();
    return status::ok;
  }
  // Use reserved huge pages if there are any, else ordinary memory.
  if (make_anonymous_memory(target, true) || make_anonymous_memory(target, false))
    return status::ok;
  return fail(status::no_memory, "a segment of {} bytes: {}", size, std::strerror(errno));
}

// False: it failed, and errno is set unless the size is no multiple of a huge page.
bool pool_memory::make_anonymous_memory(segment &target, bool is_huge) const {
  uint64_t const size = target.size;
  if (is_huge && size % (uint64_t{2} << 20) != 0)
    return false;
  unsigned const flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (is_huge ? MFD_HUGETLB : 0);
  int const descriptor = memfd_create("tanada-pool", flags);
  if (descriptor < 0)
    return false;
  bool const sized = ftruncate(descriptor, off_t(size)) == 0 && fchmod(descriptor, 0400) == 0;
  void *const mapped =
      sized ? seams::map_file_part({descriptor, 0, size}, PROT_READ | PROT_WRITE) : nullptr;
  if (mapped == nullptr) {
    close(descriptor);
    return false;
  }
  auto *const addr = static_cast<std::byte *>(mapped);
  if (!is_huge)
    madvise(addr, size, MADV_HUGEPAGE);
  bool has_huge_pages = false;
  if (options_.prefault && !populate_pages(addr, size, has_huge_pages)) {
    int const error = errno;
    munmap(addr, size);
    close(descriptor);
    errno = error;
    return false;
  }
  target.addr = addr;
  target.descriptor = descriptor;
  target.is_huge = is_huge;
  target.has_huge_pages = is_huge || has_huge_pages;
  return true;
}

bool pool_memory::may_drop(const segment &old, uint64_t timeout_ns) {
  if (!drop_hook_ || old.owner == no_owner)
    return true;
  return drop_hook_(old.addr, old.size, timeout_ns);
}

// Cut off the segment's end. False: the segment is unchanged.
bool pool_memory::shrink(segment &target, uint64_t size) {
  TND_ASSERT(file_ == nullptr && !target.is_exported);
  TND_ASSERT(size > 0 && size < target.size);
  if (ftruncate(target.descriptor, off_t(size)) != 0)
    return false;
  munmap(target.addr + size, target.size - size);
  target.size = size;
  return true;
}

// Punch a hole, so that the pages return to the system even while clients still map the segment.
void pool_memory::drop_memory(segment &old) {
  TND_ASSERT(file_ == nullptr && old.addr != nullptr && old.descriptor >= 0);
  munmap(old.addr, old.size);
  (void)fallocate(old.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, off_t(old.size));
  close(old.descriptor);
  old.addr = nullptr;
  old.descriptor = -1;
}

// A part of a device, which all owners share.
result<segment_view> pool_memory::export_part(uint32_t number, bool writable) {
  lock_guard lock{mutex_};
  auto const it = segments_.find(number);
  if (it == segments_.end())
    return status::no_entry;
  TND_ASSIGN(int const descriptor, file_->export_descriptor(writable));
  return segment_view{descriptor, it->second.size, number * options_.segment_size, false};
}

result<segment_view> pool_memory::export_segment(uint64_t owner, uint32_t number, bool writable) {
  if (!is_exportable())
    return status::not_supported;
  if (!binds_segments())
    return export_part(number, writable);
  lock_guard lock{mutex_};
  auto const it = segments_.find(number);
  if (it == segments_.end() || it->second.owner != owner)
    return status::no_entry;
  segment &seg = it->second;
  TND_ASSERT(seg.descriptor >= 0);
  // The seals keep the daemon and clients from resizing a mapped segment. A read-only descriptor
  // cannot be reopened for writing, because the file's mode forbids that.
  constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (!seg.is_exported && fcntl(seg.descriptor, F_ADD_SEALS, seals) != 0) {
    return fail(status::io, "sealing a segment of the pool failed: {}", std::strerror(errno));
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

// The segments that a call of reserve_segments() has chosen so far.
struct pool_memory::segment_list {
  bool is_enough() const {
    return listed_size >= wanted_size || whole.size() + parts.size() >= reserve_count_max;
  }
  void add_whole(uint32_t number, uint64_t size) {
    listed_size += size;
    whole.push_back(number);
  }

  uint64_t wanted_size = 0, listed_size = 0;  // free bytes
  std::vector<uint32_t> whole, parts;         // wholly free ones, and ones with free extents
};

// Unowned segments of the full size.
struct pool_memory::free_segments {
  std::vector<uint32_t> fresh, previous;  // without bytes of any owner, and with the owner's bytes
};

std::vector<uint32_t> pool_memory::reserve_segments(uint64_t owner, uint64_t size) {
  segment_list list{.wanted_size = size, .whole = {}, .parts = {}};
  if (!binds_segments())
    return list.whole;
  lock_guard lock{mutex_};
  list_owned(owner, list);
  auto const [fresh, previous] = find_free_segments(owner);
  for (uint32_t const number : previous) {
    if (!list.is_enough())
      list.add_whole(number, options_.segment_size);
  }
  // Other owners would have to recreate segments that this one maps, so half stays for them.
  size_t const own_count_max = (fresh.size() + previous.size() + 1) / 2;
  size_t rest_count = own_count_max - std::min(previous.size(), own_count_max);
  for (uint32_t const number : fresh) {
    if (rest_count == 0 || list.is_enough())
      break;
    erase_unowned(number);
    segments_.at(number).owner = owner;
    insert_unowned(number);
    list.add_whole(number, options_.segment_size);
    rest_count--;
  }
  list.whole.insert(list.whole.end(), list.parts.begin(), list.parts.end());
  return list.whole;
}

// List the owner's segments with free extents, the largest extents first.
void pool_memory::list_owned(uint64_t owner, segment_list &list) const {
  TND_ASSERT(mutex_.is_held());
  auto const owned_it = owned_.find(owner);
  if (owned_it == owned_.end())
    return;
  std::set<uint32_t> listed;
  auto const &free = owned_it->second.free;
  for (auto it = free.rbegin(); it != free.rend() && !list.is_enough(); ++it) {
    if (segments_.at(it->segment).size < seams::huge_page_size)
      continue;
    list.listed_size += it->size;
    if (listed.insert(it->segment).second)
      list.parts.push_back(it->segment);
  }
}

pool_memory::free_segments pool_memory::find_free_segments(uint64_t owner) const {
  TND_ASSERT(mutex_.is_held());
  free_segments candidates;
  for (auto const &[free_size, number] : unowned_) {
    if (free_size != options_.segment_size)
      continue;
    uint64_t const last_owner = segments_.at(number).owner;
    if (last_owner == no_owner)
      candidates.fresh.push_back(number);
    if (last_owner == owner)
      candidates.previous.push_back(number);
  }
  return candidates;
}

}  // namespace tanada::poold
