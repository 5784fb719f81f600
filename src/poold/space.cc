#include "poold/space.hpp"

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

#include "base/checked.hpp"
#include "base/log.hpp"

namespace tanada::poold {
namespace {

// Small objects lie at cache lines, others at pages, which a client can map one after the other.
constexpr uint64_t small_alignment = 64, page_size = 4096;
constexpr uint64_t large_size = 16 * page_size;

uint64_t aligned_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

status errno_fail(status code, const char *what, uint64_t size) {
  return fail(code, "%s of %llu bytes: %s", what, static_cast<unsigned long long>(size), std::strerror(errno));
}

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
  if (!options.file.empty()) TND_TRY(made->open_file());
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
    if (one.addr != nullptr) munmap(one.addr, options_.segment_size);
    if (one.descriptor >= 0) close(one.descriptor);
    if (one.read_descriptor >= 0) close(one.read_descriptor);
  }
  if (file_ >= 0) close(file_);
}

status space::open_file() {
  file_ = open(options_.file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0) return fail(status(-errno), "%s: %s", options_.file.c_str(), std::strerror(errno));
  struct stat about{};
  if (fstat(file_, &about) != 0) return fail(status::io, "%s: %s", options_.file.c_str(), std::strerror(errno));
  if (!S_ISREG(about.st_mode)) return status::ok;  // a device has the size it has
  // All blocks at once: a full disk shows here and not as a signal at some later write.
  if (posix_fallocate(file_, 0, off_t(capacity())) != 0) return errno_fail(status::no_space, options_.file.c_str(), capacity());
  return status::ok;
}

status space::make_memory(slot &made) {
  uint64_t const size = options_.segment_size;
  int const populate = options_.prefault ? MAP_POPULATE : 0;
  if (file_ >= 0) {
    void *const addr = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | populate, file_, off_t(made.number * size));
    if (addr == MAP_FAILED) return errno_fail(status::no_memory, "mapping", size);
    made.addr = static_cast<std::byte *>(addr);
    return status::ok;
  }
  // Huge pages where some are set aside for that; else the kernel may still use them by itself.
  for (bool const huge : {true, false}) {
    int const descriptor = memfd_create("tanada-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0));
    if (descriptor < 0) continue;
    // Nobody but us gets to write through a descriptor that was lent for reading, nor to cut what we have mapped.
    bool const sized = ftruncate(descriptor, off_t(size)) == 0 && fchmod(descriptor, 0400) == 0 &&
                       fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    void *const addr = sized ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) : MAP_FAILED;
    if (addr == MAP_FAILED) {
      close(descriptor);
      continue;
    }
    if (!huge) madvise(addr, size, MADV_HUGEPAGE);
    if (options_.prefault && madvise(addr, size, MADV_POPULATE_WRITE) != 0) {
      int const error = errno;
      munmap(addr, size);
      close(descriptor);
      errno = error;
      continue;
    }
    made.addr = static_cast<std::byte *>(addr);
    made.descriptor = descriptor;
    made.read_descriptor = open(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), O_RDONLY | O_CLOEXEC);
    if (huge) huge_pages_ = true;
    return status::ok;
  }
  return errno_fail(status::no_memory, "a segment", size);
}

// Clients may go on mapping it: its pages go back to the system all the same.
void space::drop_memory(slot &old) {
  if (dropping_) dropping_(old.addr, options_.segment_size);
  munmap(old.addr, options_.segment_size);
  (void)fallocate(old.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, off_t(options_.segment_size));
  close(old.descriptor);
  if (old.read_descriptor >= 0) close(old.read_descriptor);
  old.addr = nullptr, old.descriptor = old.read_descriptor = -1, old.lent = false;
}

space::slot &space::slot_of(uint32_t number) { return segments_[by_number_.at(number)]; }
const space::slot &space::slot_of(uint32_t number) const { return segments_[by_number_.at(number)]; }

std::byte *space::addr(const piece &part) const {
  std::lock_guard lock{mutex_};
  return slot_of(part.segment).addr + part.offset;
}

uint64_t space::used() const {
  std::lock_guard lock{mutex_};
  return used_;
}

// An unowned segment becomes the owner's: one that was before, or else one that was nobody's, since what was another's has to be
// made new.
status space::take_slot(uint32_t owner, uint32_t &index) {
  if (unowned_.empty()) return status::no_space;
  index = *unowned_.begin();
  for (uint32_t const candidate : unowned_) {
    uint32_t const before = segments_[candidate].owner;
    if (before == owner || (before == no_owner && segments_[index].owner != no_owner)) index = candidate;
    if (before == owner) break;
  }
  slot &taken = segments_[index];
  if (taken.owner != owner && taken.owner != no_owner) {
    if (taken.lent) {
      by_number_.erase(taken.number);
      drop_memory(taken);
      taken.number = next_number_++;
      by_number_[taken.number] = index;
      if (status const code = make_memory(taken); code != status::ok) {
        // The slot stays empty and out of use: a pool that has lost memory to the system is smaller, not wrong.
        unowned_.erase(index);
        return code;
      }
    } else {
      std::memset(taken.addr, 0, options_.segment_size);
    }
  }
  unowned_.erase(index);
  taken.owner = owner;
  taken.free[0] = options_.segment_size;
  free_by_size_[owner].insert({options_.segment_size, index, 0});
  return status::ok;
}

void space::give(uint32_t index, uint64_t offset, uint64_t size) {
  slot &home = segments_[index];
  auto &sizes = free_by_size_[home.owner];
  auto after = home.free.lower_bound(offset);
  if (after != home.free.end() && offset + size == after->first) {
    size += after->second;
    sizes.erase({after->second, index, after->first});
    after = home.free.erase(after);
  }
  if (after != home.free.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first, size += before->second;
      sizes.erase({before->second, index, before->first});
      home.free.erase(before);
    }
  }
  if (size == options_.segment_size) {
    home.free.clear();
    unowned_.insert(index);
    return;
  }
  home.free[offset] = size;
  sizes.insert({size, index, offset});
}

// Take `used_size` bytes at the front of a free extent.
void space::cut(uint32_t index, uint64_t offset, uint64_t size, uint64_t used_size) {
  slot &home = segments_[index];
  auto &sizes = free_by_size_[home.owner];
  sizes.erase({size, index, offset});
  home.free.erase(offset);
  if (used_size == size) return;
  home.free[offset + used_size] = size - used_size;
  sizes.insert({size - used_size, index, offset + used_size});
}

// The smallest extent that holds the rest, or else the largest there is. False: none is of use.
bool space::take_best(uint32_t owner, uint64_t size, uint64_t alignment, std::vector<piece> &pieces, uint64_t &got) {
  auto &sizes = free_by_size_[owner];
  auto best = sizes.lower_bound({size, 0, 0});
  // Extents of small objects may begin between pages; one page more makes up for that.
  if (best != sizes.end() && best->offset % alignment != 0) best = sizes.lower_bound({size + alignment, 0, 0});
  if (best == sizes.end() && !unowned_.empty()) return false;
  if (best == sizes.end()) {
    if (sizes.empty()) return false;
    best = std::prev(best);
  }
  extent const found = *best;
  uint64_t const begin = aligned_up(found.offset, alignment), end = found.offset + found.size;
  if (begin >= end) return false;
  uint64_t taken = std::min(size, end - begin);
  if (taken < size) taken &= ~(alignment - 1);
  if (taken == 0) return false;
  cut(found.slot, found.offset, found.size, begin - found.offset + taken);
  if (begin > found.offset) give(found.slot, found.offset, begin - found.offset);
  pieces.push_back({segments_[found.slot].number, begin, taken});
  got = taken;
  return true;
}

result<std::vector<piece>> space::allocate(uint32_t owner, uint64_t size) {
  std::vector<piece> pieces;
  if (size == 0) return pieces;
  uint64_t const alignment = size >= large_size ? page_size : small_alignment;
  uint64_t rest = 0;
  if (!checked_align_up(size, alignment, rest)) return status::no_space;
  std::unique_lock lock{mutex_};
  status code = status::ok;
  while (rest > 0 && code == status::ok) {
    uint64_t got = 0;
    uint32_t index = 0;
    if (pieces.size() == wire::pool::piece_count_max) code = status::no_space;
    else if (take_best(owner, std::min(rest, options_.segment_size), alignment, pieces, got)) rest -= got, used_ += got;
    else code = take_slot(owner, index);
  }
  if (code == status::ok) return pieces;
  lock.unlock();
  release(owner, pieces);
  return status::no_space;
}

void space::release(uint32_t, std::span<const piece> pieces) {
  std::lock_guard lock{mutex_};
  for (const piece &one : pieces) give(by_number_.at(one.segment), one.offset, one.size), used_ -= one.size;
}

status space::claim(uint32_t owner, std::span<const piece> pieces) {
  std::unique_lock lock{mutex_};
  size_t done = 0;
  for (const piece &one : pieces) {
    bool fits = one.segment < segments_.size() && one.size > 0 && one.offset % small_alignment == 0 &&
                one.size % small_alignment == 0 && range_fits(one.offset, one.size, options_.segment_size);
    if (fits && unowned_.contains(one.segment)) {
      segments_[one.segment].owner = owner;
      unowned_.erase(one.segment);
      segments_[one.segment].free[0] = options_.segment_size;
      free_by_size_[owner].insert({options_.segment_size, one.segment, 0});
    }
    fits = fits && segments_[one.segment].owner == owner;
    if (fits) {
      auto &free = segments_[one.segment].free;
      auto home = free.upper_bound(one.offset);
      fits = home != free.begin();
      if (fits) {
        --home;
        uint64_t const offset = home->first, size = home->second;
        fits = one.offset + one.size <= offset + size;
        if (fits) {
          cut(one.segment, offset, size, one.offset + one.size - offset);
          if (one.offset > offset) give(one.segment, offset, one.offset - offset);
        }
      }
    }
    if (!fits) break;
    used_ += one.size, done++;
  }
  lock.unlock();
  if (done == pieces.size()) return status::ok;
  release(owner, pieces.first(done));
  return status::invalid;
}

result<segment_view> space::lend(uint32_t owner, uint32_t segment, bool writable) {
  if (!is_lendable()) return status::not_supported;
  std::lock_guard lock{mutex_};
  auto const found = by_number_.find(segment);
  if (found == by_number_.end() || segments_[found->second].owner != owner) return status::no_entry;
  slot &lent = segments_[found->second];
  lent.lent = true;
  // Under the lock: once the segment's memory is made new, the number may be another namespace's.
  int const descriptor = fcntl(writable ? lent.descriptor : lent.read_descriptor, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) return status::too_many_files;
  return segment_view{descriptor, options_.segment_size, 0};
}

piece space::piece_at(uint64_t offset, uint64_t size, uint64_t object_size) const noexcept {
  uint64_t const alignment = object_size >= large_size ? page_size : small_alignment;
  return {uint32_t(offset / options_.segment_size), offset % options_.segment_size, aligned_up(size, alignment)};
}

status space::sync(std::span<const piece> pieces) {
  for (const piece &one : pieces) {
    std::byte *const begin = addr(one);
    auto const from = reinterpret_cast<uintptr_t>(begin) & ~(page_size - 1);
    uint64_t const size = reinterpret_cast<uintptr_t>(begin) + one.size - from;
    if (msync(reinterpret_cast<void *>(from), size, MS_SYNC) != 0) {
      return fail(status::io, "%s: syncing %llu bytes: %s", options_.file.c_str(), static_cast<unsigned long long>(size),
                  std::strerror(errno));
    }
  }
  return status::ok;
}

}  // namespace tanada::poold
