// The memory of the pool's segments: made, lent to clients, given back to the system.
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
#include "products/poold/space.hpp"

namespace tanada::poold {
namespace {

struct facts {
  // Bytes that can be brought in without taking them from others, huge pages that are set aside
  // included; the largest number where the kernel does not report it.
  uint64_t available = ~uint64_t{0};
  uint64_t huge_page_size = 0;
};

facts memory_facts() {
  std::ifstream lines{"/proc/meminfo"};
  uint64_t available = 0, huge_page_count = 0;
  facts known;
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
      known.huge_page_size = value << 10;
  }
  if (available != 0)
    known.available = available + huge_page_count * known.huge_page_size;
  return known;
}

// Of the pages that MFD_HUGETLB takes.
uint64_t huge_page_size() {
  return std::max(memory_facts().huge_page_size, space::granule_min);
}

// Half of what a process may have of descriptors and of mappings: clients and threads need some.
uint32_t segment_count_max() {
  constexpr uint32_t mapping_count_max = 32768;  // of 65530, the kernel's default
  struct rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0)
    return mapping_count_max;
  return uint32_t(std::min<uint64_t>(descriptors.rlim_cur / 2, mapping_count_max));
}

// Huge pages as far as the kernel has any. False: errno says why the memory cannot be brought in.
bool bring_in(std::byte *addr, uint64_t size, bool &has_huge_pages) {
  has_huge_pages = size % port::huge_page_size == 0 && port::make_huge_pages(addr, size);
  return has_huge_pages || madvise(addr, size, MADV_POPULATE_WRITE) == 0;
}

// Bringing in more than there is would have the kernel kill this process, or somebody else's.
status check_memory(const space_options &options) {
  if (!options.prefault || !options.file.empty())
    return status::ok;
  uint64_t const available =
      options.available_size != 0 ? options.available_size : memory_facts().available;
  if (options.capacity <= available)
    return status::ok;
  return fail(status::no_memory, "a pool of %llu MiB: %llu MiB of memory are available",
              static_cast<unsigned long long>(options.capacity >> 20),
              static_cast<unsigned long long>(available >> 20));
}

}  // namespace

result<std::unique_ptr<space>> space::create(const space_options &options) {
  bool const good = options.segment_size >= (2 << 20) &&
                    (options.segment_size & (options.segment_size - 1)) == 0 &&
                    options.capacity > 0 && options.capacity <= uint64_t{1} << 50;
  if (!good)
    return fail(status::invalid,
                "a pool has 1 byte to 1 PiB in segments of a power of two, 2 MiB at least");
  TND_TRY(check_memory(options));
  std::unique_ptr<space> made{new space{options}};
  uint64_t const count = (options.capacity + options.segment_size - 1) / options.segment_size;
  made->capacity_ = count * options.segment_size;
  if (options.segment_count_max == 0)
    made->options_.segment_count_max = segment_count_max();
  if (!options.file.empty()) {
    auto file = backing_file::open(options.file, count * options.segment_size);
    if (!file.ok())
      return file.error();
    made->file_ = std::move(file).value();
  }
  TND_TRY(made->make_all(count));
  return made;
}

// Pages are cleared as they come in: that is work for all processors.
status space::make_all(uint64_t count) {
  for (uint32_t i = 0; i < count; i++)
    segments_[i].size = options_.segment_size;
  std::atomic<uint64_t> next{0};
  std::atomic<status> first_error{status::ok};
  std::mutex message_mutex;
  std::string message;
  auto const work = [&] {
    for (uint64_t i = next.fetch_add(1); i < count && first_error.load() == status::ok;
         i = next.fetch_add(1)) {
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
  for (std::thread &one : helpers)
    one.join();
  if (first_error.load() != status::ok) {
    set_last_message(message);
    return first_error.load();
  }
  for (auto const &[number, each] : segments_) {
    if (each.is_huge)
      granule_ = huge_page_size();
    insert_unowned(number);
  }
  next_number_ = uint32_t(count);
  return status::ok;
}

space::~space() {
  for (auto const &[number, each] : segments_) {
    if (each.addr != nullptr && file_ == nullptr)
      munmap(each.addr, each.size);
    if (each.descriptor >= 0)
      close(each.descriptor);
  }
}

status space::make_memory(segment &target, uint64_t file_offset) {
  uint64_t const size = target.size;
  if (file_ != nullptr) {
    auto mapped = file_->map(file_offset, size, options_.prefault);
    if (!mapped.ok())
      return mapped.error();
    target.addr = mapped.value();
    return status::ok;
  }
  // Huge pages where some are set aside for that; else those that the kernel has left.
  for (bool const huge : {true, false}) {
    if (huge && size % (uint64_t{2} << 20) != 0)
      continue;
    unsigned const flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0);
    int const descriptor = memfd_create("tanada-pool", flags);
    if (descriptor < 0)
      continue;
    bool const sized = ftruncate(descriptor, off_t(size)) == 0 && fchmod(descriptor, 0400) == 0;
    void *const mapped =
        sized ? port::map_file_part({descriptor, 0, size}, PROT_READ | PROT_WRITE) : nullptr;
    if (mapped == nullptr) {
      close(descriptor);
      continue;
    }
    auto *const addr = static_cast<std::byte *>(mapped);
    if (!huge)
      madvise(addr, size, MADV_HUGEPAGE);
    bool has_huge_pages = false;
    if (options_.prefault && !bring_in(addr, size, has_huge_pages)) {
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

bool space::may_drop(const segment &old, uint64_t timeout_ns) {
  if (!dropping_ || old.owner == no_owner)
    return true;
  return dropping_(old.addr, old.size, timeout_ns);
}

// Cut its end off. False: it is as it was.
bool space::shrink(segment &target, uint64_t size) {
  if (ftruncate(target.descriptor, off_t(size)) != 0)
    return false;
  munmap(target.addr + size, target.size - size);
  target.size = size;
  return true;
}

// Clients may go on mapping it: its pages go back to the system all the same.
void space::drop_memory(segment &old) {
  munmap(old.addr, old.size);
  (void)fallocate(old.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, off_t(old.size));
  close(old.descriptor);
  old.addr = nullptr;
  old.descriptor = -1;
}

result<segment_view> space::lend(uint64_t owner, uint32_t number, bool writable) {
  if (!is_lendable())
    return status::not_supported;
  std::lock_guard lock{mutex_};
  auto const found = segments_.find(number);
  if (found == segments_.end() || found->second.owner != owner)
    return status::no_entry;
  segment &lent = found->second;
  // From here on nobody cuts what clients map. A descriptor that is good for reading cannot be
  // opened again for writing: the file's mode forbids that.
  constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (!lent.lent && fcntl(lent.descriptor, F_ADD_SEALS, seals) != 0) {
    return fail(status::io, "a segment cannot be sealed: %s", std::strerror(errno));
  }
  lent.lent = true;
  // Under the lock: once the segment's memory is made new, the number is no more.
  std::string const path = "/proc/self/fd/" + std::to_string(lent.descriptor);
  int const descriptor = writable ? fcntl(lent.descriptor, F_DUPFD_CLOEXEC, 0)
                                  : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return status::too_many_files;
  bool const has_huge_pages = lent.has_huge_pages && lent.size % port::huge_page_size == 0;
  return segment_view{descriptor, lent.size, 0, has_huge_pages};
}

std::vector<uint32_t> space::reserve_segments(uint64_t owner, uint64_t size) {
  std::vector<uint32_t> whole, parts;
  if (!is_lendable())
    return whole;
  std::lock_guard lock{mutex_};
  uint64_t found_size = 0;
  auto const is_enough = [&] {
    return found_size >= size || whole.size() + parts.size() >= reserve_count_max;
  };
  std::set<uint32_t> listed;
  if (auto const own = owned_.find(owner); own != owned_.end()) {
    auto const &free = own->second.free;
    for (auto each = free.rbegin(); each != free.rend() && !is_enough(); ++each) {
      if (segments_.at(each->segment).size < port::huge_page_size)
        continue;
      found_size += each->size;
      if (listed.insert(each->segment).second)
        parts.push_back(each->segment);
    }
  }
  uint64_t const whole_size = options_.segment_size;
  std::vector<uint32_t> fresh, own;
  for (auto const &[free_size, number] : unowned_) {
    if (free_size != whole_size)
      continue;
    uint64_t const last_owner = segments_.at(number).owner;
    if (last_owner == no_owner)
      fresh.push_back(number);
    if (last_owner == owner)
      own.push_back(number);
  }
  auto const list_whole = [&](uint32_t number) {
    found_size += whole_size;
    whole.push_back(number);
  };
  for (uint32_t const number : own) {
    if (!is_enough())
      list_whole(number);
  }
  // Others would have to make new memory of what was lent to this one: half stays for them.
  size_t const own_count_max = (fresh.size() + own.size() + 1) / 2;
  size_t rest_count = own_count_max - std::min(own.size(), own_count_max);
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
