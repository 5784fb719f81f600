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
constexpr uint64_t drop_wait_ns = 1'000'000'000;  // others who allocate wait as long

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

// One that was the owner's before, or else one that was nobody's, since what was another's has to be made new.
uint32_t space::best_unowned(uint32_t owner) const {
  uint32_t best = *unowned_.begin();
  for (uint32_t const candidate : unowned_) {
    uint32_t const before = segments_[candidate].owner;
    if (before == owner) return candidate;
    if (before == no_owner && segments_[best].owner != no_owner) best = candidate;
  }
  return best;
}

// Other memory for a slot. On failure it stays empty: a pool that has lost memory to the system is smaller, not wrong.
status space::renew(uint32_t index) {
  slot &old = segments_[index];
  by_number_.erase(old.number);
  drop_memory(old);
  old.number = next_number_++;
  by_number_[old.number] = index;
  return make_memory(old);
}

// An unowned segment becomes the owner's.
status space::take_slot(uint32_t owner, uint32_t &index) {
  // Those in quarantine are asked for without waiting, and only the first that comes to it is waited for.
  std::erase_if(quarantine_, [&](uint32_t one) {
    if (!may_drop(segments_[one], 0)) return false;
    if (renew(one) == status::ok) segments_[one].owner = no_owner, unowned_.insert(one);
    return true;
  });
  for (;;) {
    if (unowned_.empty()) return status::no_space;
    index = best_unowned(owner);
    unowned_.erase(index);
    slot &taken = segments_[index];
    if (taken.owner == owner || taken.owner == no_owner) break;
    if (!taken.lent) {
      std::memset(taken.addr, 0, options_.segment_size);
      break;
    }
    if (may_drop(taken, quarantine_.empty() ? drop_wait_ns : 0)) {
      TND_TRY(renew(index));
      break;
    }
    log(log_level::warning, "pool: %llu bytes are out of use: a transfer may still touch them",
        static_cast<unsigned long long>(options_.segment_size));
    quarantine_.insert(index);
  }
  slot &taken = segments_[index];
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

// But for what is lost: of that nobody gets anything again.
void space::give_whole(uint32_t index, uint64_t offset, uint64_t size) {
  if (file_ == nullptr || file_->lost_size() == 0) return give(index, offset, size);
  uint64_t const base = index * options_.segment_size;  // of a file a slot keeps its number
  file_->visit_whole(base + offset, size, [&](uint64_t at, uint64_t part) {
    uint64_t const begin = aligned_up(at - base, small_alignment), end = (at - base + part) & ~(small_alignment - 1);
    if (begin < end) give(index, begin, end - begin);
  });
}

// Take what is lost from what is free. The mutex is held.
void space::retire_lost() {
  std::erase_if(unowned_, [&](uint32_t index) { return file_->is_lost(index * options_.segment_size, options_.segment_size); });
  for (uint32_t index = 0; index < segments_.size(); index++) {
    uint64_t const base = index * options_.segment_size;
    auto const free = segments_[index].free;  // a copy: it changes below
    for (auto const &[offset, size] : free) {
      if (!file_->is_lost(base + offset, size)) continue;
      cut(index, offset, size, size);
      give_whole(index, offset, size);
    }
  }
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
  for (const piece &one : pieces) give_whole(by_number_.at(one.segment), one.offset, one.size), used_ -= one.size;
}

status space::claim(uint32_t owner, std::span<const piece> pieces) {
  std::unique_lock lock{mutex_};
  size_t done = 0;
  status code = status::ok;
  for (const piece &one : pieces) {
    code = claim_one(owner, one);
    if (code != status::ok) break;
    used_ += one.size, done++;
  }
  lock.unlock();
  if (code != status::ok) release(owner, pieces.first(done));
  return code;
}

status space::claim_one(uint32_t owner, const piece &what) {
  if (what.segment >= segments_.size() || what.size == 0 || what.offset % small_alignment != 0 || what.size % small_alignment != 0 ||
      !range_fits(what.offset, what.size, options_.segment_size))
    return status::invalid;
  slot &home = segments_[what.segment];
  if (unowned_.erase(what.segment) != 0) {
    home.owner = owner;
    home.free[0] = options_.segment_size;
    free_by_size_[owner].insert({options_.segment_size, what.segment, 0});
  }
  auto place = home.free.upper_bound(what.offset);
  if (place == home.free.begin()) return status::busy;
  --place;
  uint64_t const offset = place->first, size = place->second;
  if (what.offset + what.size > offset + size) return status::busy;
  if (home.owner != owner) return status::invalid;
  cut(what.segment, offset, size, what.offset + what.size - offset);
  if (what.offset > offset) give(what.segment, offset, what.offset - offset);
  return status::ok;
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
  uint64_t size = 0;
  for (const piece &one : pieces) {
    TND_TRY(file_->sync(file_offset(one), one.size));
    size += one.size;
  }
  // Pages that are gone are synced without a word.
  look();
  return is_lost(pieces, size) ? fail(status::io, "%s has lost bytes", options_.file.c_str()) : status::ok;
}

void space::look() {
  if (file_ == nullptr || !file_->look()) return;
  std::lock_guard lock{mutex_};
  retire_lost();
  loss_count_++;
}

bool space::is_lost(std::span<const piece> pieces, uint64_t size) const {
  if (file_ == nullptr || file_->lost_size() == 0) return false;
  for (const piece &one : pieces) {
    uint64_t const part = std::min(size, one.size);
    if (file_->is_lost(file_offset(one), part)) return true;
    size -= part;
  }
  return false;
}

}  // namespace tanada::poold
