// The memory of the pool's segments: made, lent to clients, given back to the system.
#include <fcntl.h>
#include <sys/mman.h>
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

#include "base/log.hpp"
#include "port/memory/huge_pages.hpp"
#include "poold/space.hpp"

namespace tanada::poold {
namespace {

// Bytes that can be brought in without taking them from others, huge pages that are set aside included; the largest number
// where the kernel does not tell.
uint64_t available_memory() {
  std::ifstream facts{"/proc/meminfo"};
  uint64_t available = 0, huge_pages = 0, huge_page_size = 0;
  for (std::string line; std::getline(facts, line);) {
    size_t const colon = line.find(':');
    if (colon == std::string::npos) continue;
    uint64_t const value = std::strtoull(line.c_str() + colon + 1, nullptr, 10);
    std::string const name = line.substr(0, colon);
    if (name == "MemAvailable") available = value << 10;
    else if (name == "HugePages_Free") huge_pages = value;
    else if (name == "Hugepagesize") huge_page_size = value << 10;
  }
  return available == 0 ? ~uint64_t{0} : available + huge_pages * huge_page_size;
}

// Huge pages as far as the kernel has any. False: errno says why the memory cannot be brought in.
bool bring_in(std::byte *addr, uint64_t size, bool &is_huge) {
  is_huge = port::make_huge_pages(addr, size);
  return is_huge || madvise(addr, size, MADV_POPULATE_WRITE) == 0;
}

// Bringing in more than there is would have the kernel kill this process, or somebody else's.
status check_memory(const space_options &options) {
  if (!options.prefault || !options.file.empty()) return status::ok;
  uint64_t const available = options.available_size != 0 ? options.available_size : available_memory();
  if (options.capacity <= available) return status::ok;
  return fail(status::no_memory, "a pool of %llu MiB: %llu MiB of memory are available",
              static_cast<unsigned long long>(options.capacity >> 20), static_cast<unsigned long long>(available >> 20));
}

}  // namespace

result<std::unique_ptr<space>> space::create(const space_options &options) {
  bool const good = options.segment_size >= (2 << 20) && (options.segment_size & (options.segment_size - 1)) == 0 &&
                    options.capacity > 0 && options.capacity <= uint64_t{1} << 50;
  if (!good) return fail(status::invalid, "a pool has 1 byte to 1 PiB in segments of a power of two, 2 MiB at least");
  TND_TRY(check_memory(options));
  std::unique_ptr<space> made{new space{options}};
  uint64_t const count = (options.capacity + options.segment_size - 1) / options.segment_size;
  made->segments_.resize(count);
  if (!options.file.empty()) {
    auto file = backing_file::open(options.file, count * options.segment_size);
    if (!file.ok()) return file.error();
    made->file_ = std::move(file).value();
  }
  // Pages are cleared as they come in: that is work for all processors.
  std::atomic<uint64_t> next{0};
  std::atomic<status> first_error{status::ok};
  std::mutex message_mutex;
  std::string message;
  auto const work = [&] {
    for (uint64_t i; (i = next.fetch_add(1)) < count && first_error.load() == status::ok;) {
      made->segments_[i].number = uint32_t(i);
      if (status const code = made->make_memory(made->segments_[i]); code != status::ok) {
        std::lock_guard lock{message_mutex};
        first_error.store(code);
        message = last_message();
      }
    }
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < std::min(std::thread::hardware_concurrency(), 16u); i++) helpers.emplace_back(work);
  work();
  for (std::thread &one : helpers) one.join();
  if (first_error.load() != status::ok) {
    set_last_message(message);
    return first_error.load();
  }
  made->next_number_ = uint32_t(count);
  for (uint32_t i = 0; i < count; i++) made->unowned_.insert(i), made->by_number_[i] = i;
  return made;
}

space::~space() {
  for (slot &one : segments_) {
    if (one.addr != nullptr && file_ == nullptr) munmap(one.addr, options_.segment_size);
    if (one.descriptor >= 0) close(one.descriptor);
    if (one.read_descriptor >= 0) close(one.read_descriptor);
  }
}

status space::make_memory(slot &made) {
  uint64_t const size = options_.segment_size;
  if (file_ != nullptr) {
    auto const mapped = file_->map(made.number * size, size, options_.prefault);
    if (!mapped.ok()) return mapped.error();
    made.addr = const_cast<result<std::byte *> &>(mapped).value();
    return status::ok;
  }
  // Huge pages where some are set aside for that; else those that the kernel has left.
  for (bool const huge : {true, false}) {
    int const descriptor = memfd_create("tanada-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0));
    if (descriptor < 0) continue;
    // Nobody but us gets to write through a descriptor that was lent for reading, nor to cut what we have mapped.
    bool const sized = ftruncate(descriptor, off_t(size)) == 0 && fchmod(descriptor, 0400) == 0 &&
                       fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    void *const mapped =
        sized ? port::map_file_part({descriptor, 0, size}, PROT_READ | PROT_WRITE) : nullptr;
    if (mapped == nullptr) {
      close(descriptor);
      continue;
    }
    auto *const addr = static_cast<std::byte *>(mapped);
    if (!huge) madvise(addr, size, MADV_HUGEPAGE);
    bool is_huge = false;
    if (options_.prefault && !bring_in(addr, size, is_huge)) {
      int const error = errno;
      munmap(addr, size);
      close(descriptor);
      errno = error;
      continue;
    }
    made.addr = addr;
    made.is_huge = huge || is_huge;
    made.descriptor = descriptor;
    made.read_descriptor = open(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), O_RDONLY | O_CLOEXEC);
    return status::ok;
  }
  return fail(status::no_memory, "a segment of %llu bytes: %s", static_cast<unsigned long long>(size), std::strerror(errno));
}

bool space::may_drop(const slot &old, uint64_t timeout_ns) {
  return !dropping_ || dropping_(old.addr, options_.segment_size, timeout_ns);
}

// Clients may go on mapping it: its pages go back to the system all the same.
void space::drop_memory(slot &old) {
  munmap(old.addr, options_.segment_size);
  (void)fallocate(old.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, off_t(options_.segment_size));
  close(old.descriptor);
  if (old.read_descriptor >= 0) close(old.read_descriptor);
  old.addr = nullptr, old.descriptor = old.read_descriptor = -1, old.lent = false;
}

result<segment_view> space::lend(uint64_t owner, uint32_t segment, bool writable) {
  if (!is_lendable()) return status::not_supported;
  std::lock_guard lock{mutex_};
  auto const found = by_number_.find(segment);
  if (found == by_number_.end() || segments_[found->second].owner != owner) return status::no_entry;
  slot &lent = segments_[found->second];
  lent.lent = true;
  // Under the lock: once the segment's memory is made new, the number may be another namespace's.
  int const descriptor = fcntl(writable ? lent.descriptor : lent.read_descriptor, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) return status::too_many_files;
  return segment_view{descriptor, options_.segment_size, 0, lent.is_huge};
}

std::vector<uint32_t> space::reserve(uint64_t owner, uint64_t size) {
  std::vector<uint32_t> whole, parts;
  if (!is_lendable()) return whole;
  std::lock_guard lock{mutex_};
  uint64_t found_size = 0;
  auto const is_enough = [&] {
    return found_size >= size || whole.size() + parts.size() >= reserve_count_max;
  };
  std::set<uint32_t> listed;
  if (auto const own = free_by_size_.find(owner); own != free_by_size_.end()) {
    for (auto each = own->second.rbegin(); each != own->second.rend() && !is_enough(); ++each) {
      found_size += each->size;
      if (listed.insert(each->slot).second) parts.push_back(segments_[each->slot].number);
    }
  }
  auto const list_whole = [&](uint32_t index) {
    found_size += options_.segment_size;
    whole.push_back(segments_[index].number);
  };
  uint32_t fresh_count = 0, own_count = 0;
  for (uint32_t const index : unowned_) {
    uint64_t const last_owner = segments_[index].owner;
    if (last_owner == no_owner) fresh_count++;
    if (last_owner == owner) own_count++;
    if (last_owner == owner && !is_enough()) list_whole(index);
  }
  // Others would have to make new memory of what was lent to this one: half stays for them.
  uint32_t const own_count_max = (fresh_count + own_count + 1) / 2;
  uint32_t rest_count = own_count_max - std::min(own_count, own_count_max);
  for (uint32_t const index : unowned_) {
    if (rest_count == 0 || is_enough()) break;
    if (segments_[index].owner != no_owner) continue;
    segments_[index].owner = owner;
    list_whole(index);
    rest_count--;
  }
  whole.insert(whole.end(), parts.begin(), parts.end());
  return whole;
}

}  // namespace tanada::poold
