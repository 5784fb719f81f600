#include "products/poold/space.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/checked.hpp"
#include "core/base/log.hpp"

namespace tanada::poold {
namespace {

using printed_size = unsigned long long;

// Small objects lie at cache lines, others at pages, which a client can map one after the other.
constexpr uint64_t small_alignment = 64, page_size = 4096;
constexpr uint64_t large_size = 16 * page_size;

uint64_t aligned_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace

std::byte *space::addr(const piece &part) const {
  std::lock_guard lock{mutex_};
  return segments_.at(part.segment).addr + part.offset;
}

uint64_t space::used() const {
  std::lock_guard lock{mutex_};
  return used_;
}

space_usage space::usage() const {
  std::lock_guard lock{mutex_};
  space_usage now{.capacity = capacity(), .used = used_, .held_back = quarantine_size_};
  if (!is_lendable())
    now.owned = used_;
  else
    now.owned = capacity_ - unowned_size_ - quarantine_size_ - spare_size_;
  return now;
}

owner_usage space::usage_of(uint64_t owner) const {
  if (!is_lendable())
    return {};
  std::lock_guard lock{mutex_};
  auto const found = owned_.find(owner);
  if (found == owned_.end())
    return {};
  return {found->second.size, found->second.segment_count};
}

// Free extents do not touch each other.
bool space::is_free(const segment &home) const {
  if (is_lendable())
    return home.used == 0;
  return home.free.size() == 1 && home.free.begin()->second == home.size;  // nothing of it is lost
}

void space::give(uint32_t number, uint64_t offset, uint64_t size) {
  segment &home = segments_.at(number);
  auto &sizes = owned_.at(home.owner).free;
  auto after = home.free.lower_bound(offset);
  if (after != home.free.end() && offset + size == after->first) {
    size += after->second;
    sizes.erase({after->second, number, after->first});
    after = home.free.erase(after);
  }
  if (after != home.free.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      sizes.erase({before->second, number, before->first});
      home.free.erase(before);
    }
  }
  home.free[offset] = size;
  sizes.insert({size, number, offset});
}

// But for what is lost: of that nobody gets anything again.
void space::give_whole(uint32_t number, uint64_t offset, uint64_t size) {
  if (file_ == nullptr || file_->lost_size() == 0)
    return give(number, offset, size);
  uint64_t const base = number * options_.segment_size;  // of a file a segment keeps its number
  file_->visit_whole(base + offset, size, [&](uint64_t at, uint64_t part) {
    uint64_t const begin = aligned_up(at - base, small_alignment);
    uint64_t const end = (at - base + part) & ~(small_alignment - 1);
    if (begin < end)
      give(number, begin, end - begin);
  });
}

// Take what is lost from what is free. The mutex is held.
void space::retire_lost() {
  for (auto const &[number, each] : segments_) {
    uint64_t const base = number * options_.segment_size;
    if (unowned_.contains({each.size, number})) {
      if (file_->is_lost(base, each.size))
        erase_unowned(number);
      continue;
    }
    auto const free = each.free;  // a copy: it changes below
    for (auto const &[offset, size] : free) {
      if (!file_->is_lost(base + offset, size))
        continue;
      cut({size, number, offset}, size);
      give_whole(number, offset, size);
    }
  }
}

// Take `used_size` bytes at the front of a free extent.
void space::cut(const extent &place, uint64_t used_size) {
  segment &home = segments_.at(place.segment);
  auto &sizes = owned_.at(home.owner).free;
  sizes.erase(place);
  home.free.erase(place.offset);
  if (used_size == place.size)
    return;
  home.free[place.offset + used_size] = place.size - used_size;
  sizes.insert({place.size - used_size, place.segment, place.offset + used_size});
}

// Up to `size` bytes of a free extent. False: it is of no use.
bool space::take(const extent &place, uint64_t size, uint64_t alignment, piece &taken) {
  uint64_t const begin = aligned_up(place.offset, alignment), end = place.offset + place.size;
  if (begin >= end)
    return false;
  uint64_t taken_size = std::min(size, end - begin);
  if (taken_size < size)
    taken_size &= ~(alignment - 1);
  if (taken_size == 0)
    return false;
  cut(place, begin - place.offset + taken_size);
  if (begin > place.offset)
    give(place.segment, place.offset, begin - place.offset);
  segments_.at(place.segment).used += taken_size;
  taken = {place.segment, begin, taken_size};
  return true;
}

// The smallest extent that holds all of it.
bool space::take_fitting(uint64_t owner, uint64_t size, uint64_t alignment, piece &taken) {
  auto const owned = owned_.find(owner);
  if (owned == owned_.end())
    return false;
  auto const &sizes = owned->second.free;
  auto best = sizes.lower_bound({size, 0, 0});
  // Extents of small objects may begin between pages; one page more makes up for that.
  bool const is_aligned = best != sizes.end() && best->offset % alignment == 0;
  if (!is_aligned)
    best = sizes.lower_bound({size + alignment, 0, 0});
  return best != sizes.end() && take(extent{*best}, size, alignment, taken);
}

bool space::take_largest(uint64_t owner, uint64_t size, uint64_t alignment, piece &taken) {
  auto const owned = owned_.find(owner);
  if (owned == owned_.end() || owned->second.free.empty())
    return false;
  return take(extent{*owned->second.free.rbegin()}, size, alignment, taken);
}

// A new segment goes before parts of what the owner has.
bool space::take_some(uint64_t owner, uint64_t size, uint64_t alignment, piece &taken) {
  if (take_fitting(owner, size, alignment, taken))
    return true;
  uint32_t number = 0;
  if (add_segment(owner, size, number) == status::ok) {
    return take({segments_.at(number).size, number, 0}, size, alignment, taken);
  }
  return take_largest(owner, size, alignment, taken);
}

uint64_t space::allocated_size(uint64_t size) {
  return aligned_up(size, size >= large_size ? page_size : small_alignment);
}

result<std::vector<piece>> space::allocate(uint64_t asking_owner, uint64_t size) {
  uint64_t const owner = segment_owner(asking_owner);
  std::vector<piece> pieces;
  if (size == 0)
    return pieces;
  uint64_t const alignment = size >= large_size ? page_size : small_alignment;
  uint64_t rest = 0;
  if (!checked_align_up(size, alignment, rest))
    return status::no_space;
  std::unique_lock lock{mutex_};
  while (rest > 0) {
    piece taken;
    uint64_t const wanted = std::min(rest, options_.segment_size);
    if (pieces.size() == wire::pool::piece_count_max)
      break;
    if (!take_some(owner, wanted, alignment, taken))
      break;
    rest -= taken.size;
    used_ += taken.size;
    pieces.push_back(taken);
  }
  if (rest == 0)
    return pieces;
  lock.unlock();
  release(pieces);
  return status::no_space;
}

void space::release(std::span<const piece> pieces) {
  std::lock_guard lock{mutex_};
  for (const piece &part : pieces) {
    segment &home = segments_.at(part.segment);
    give_whole(part.segment, part.offset, part.size);
    home.used -= part.size;
    used_ -= part.size;
    if (is_free(home))
      disown(part.segment);
  }
}

status space::claim(uint64_t owner, std::span<const piece> pieces) {
  std::unique_lock lock{mutex_};
  size_t done = 0;
  status code = status::ok;
  for (const piece &one : pieces) {
    code = claim_one(segment_owner(owner), one);
    if (code != status::ok)
      break;
    used_ += one.size;
    done++;
  }
  lock.unlock();
  if (code != status::ok)
    release(pieces.first(done));
  return code;
}

status space::claim_one(uint64_t owner, const piece &part) {
  bool const is_aligned = part.offset % small_alignment == 0 && part.size % small_alignment == 0;
  auto const found = segments_.find(part.segment);
  bool const fits =
      found != segments_.end() && range_fits(part.offset, part.size, found->second.size);
  if (part.size == 0 || !is_aligned || !fits)
    return status::invalid;
  segment &home = found->second;
  if (unowned_.contains({home.size, part.segment})) {
    erase_unowned(part.segment);
    own(part.segment, owner);
  }
  auto place = home.free.upper_bound(part.offset);
  if (place == home.free.begin())
    return status::busy;
  --place;
  uint64_t const offset = place->first, size = place->second;
  if (part.offset + part.size > offset + size)
    return status::busy;
  if (home.owner != owner)
    return status::invalid;
  cut({size, part.segment, offset}, part.offset + part.size - offset);
  home.used += part.size;
  if (part.offset > offset)
    give(part.segment, offset, part.offset - offset);
  return status::ok;
}

void space::add_pieces_at(uint64_t offset, uint64_t size, std::vector<piece> &pieces) const {
  uint64_t rest = aligned_up(size, small_alignment);
  while (rest > 0) {
    uint64_t const start = offset % options_.segment_size;
    uint64_t const part_size = std::min(rest, options_.segment_size - start);
    pieces.push_back({uint32_t(offset / options_.segment_size), start, part_size});
    offset += part_size;
    rest -= part_size;
  }
}

status space::sync(std::span<const piece> pieces) {
  uint64_t size = 0;
  for (const piece &one : pieces) {
    TND_TRY(file_->sync(file_offset(one), one.size));
    size += one.size;
  }
  // Pages that are gone are synced without a word.
  look();
  return is_lost(pieces, size) ? fail(status::io, "%s has lost bytes", options_.file.c_str())
                               : status::ok;
}

void space::look() {
  if (file_ == nullptr || !file_->look())
    return;
  std::lock_guard lock{mutex_};
  retire_lost();
  loss_count_++;
}

bool space::is_lost(std::span<const piece> pieces, uint64_t size) const {
  if (file_ == nullptr || file_->lost_size() == 0)
    return false;
  for (const piece &one : pieces) {
    uint64_t const part = std::min(size, one.size);
    if (file_->is_lost(file_offset(one), part))
      return true;
    size -= part;
  }
  return false;
}

result<std::unique_ptr<backing_file>> backing_file::open(const std::string &path, uint64_t size) {
  std::unique_ptr<backing_file> made{new backing_file{path, size}};
  TND_TRY(made->prepare());
  return made;
}

backing_file::~backing_file() {
  guard_.reset();
  if (addr_ != nullptr)
    munmap(addr_, size_);
  if (file_ >= 0)
    close(file_);
}

status backing_file::prepare() {
  const char *const path = path_.c_str();
  file_ = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0)
    return fail(status(-errno), "%s: %s", path, std::strerror(errno));
  // The journal's folder has a lock of its own; a second path to the same file would have another
  // folder.
  if (flock(file_, LOCK_EX | LOCK_NB) != 0)
    return fail(status::busy, "%s belongs to another daemon", path);
  struct stat about{};
  if (fstat(file_, &about) != 0)
    return fail(status::io, "%s: %s", path, std::strerror(errno));
  is_device_ = !S_ISREG(about.st_mode);
  // All blocks at once: a full disk shows here and not at some later write.
  if (int const error = is_device_ ? 0 : posix_fallocate(file_, 0, off_t(size_)); error != 0) {
    return fail(status::no_space, "%s of %llu bytes: %s", path, printed_size(size_),
                std::strerror(error));
  }
  file_size_ = size_;
  // One range of addresses for all of it, so that there is one to guard.
  void *const addr =
      mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addr == MAP_FAILED)
    return fail(status::no_memory, "%llu bytes of addresses: %s", printed_size(size_),
                std::strerror(errno));
  addr_ = static_cast<std::byte *>(addr);
  auto guard = port::guarded_memory::guard(addr_, size_);
  if (!guard.ok())
    return guard.error();
  guard_ = std::move(guard).value();
  return status::ok;
}

result<std::byte *> backing_file::map(uint64_t offset, uint64_t size, bool populate) {
  int const flags = MAP_SHARED | MAP_FIXED | (populate ? MAP_POPULATE : 0);
  void *const addr =
      mmap(addr_ + offset, size, PROT_READ | PROT_WRITE, flags, file_, off_t(offset));
  if (addr != MAP_FAILED)
    return static_cast<std::byte *>(addr);
  return fail(status::no_memory, "%s: mapping %llu bytes: %s", path_.c_str(), printed_size(size),
              std::strerror(errno));
}

// The mutex is held.
void backing_file::lose(uint64_t begin, uint64_t end) {
  auto at = lost_.upper_bound(begin);
  if (at != lost_.begin() && std::prev(at)->second >= begin)
    --at;
  while (at != lost_.end() && at->first <= end) {
    begin = std::min(begin, at->first);
    end = std::max(end, at->second);
    lost_size_ -= at->second - at->first;
    at = lost_.erase(at);
  }
  lost_[begin] = end;
  lost_size_ += end - begin;
}

bool backing_file::look() {
  struct stat about{};
  bool const known = !is_device_ && fstat(file_, &about) == 0;
  if (known && about.st_nlink == 0 && !is_removed_.exchange(true)) {
    log(log_level::error, "pool: %s was removed: nothing is durable any more", path_.c_str());
  }
  uint64_t const size = known ? std::min(uint64_t(about.st_size), size_) : size_;
  size_t const pages = guard_->lost_count();
  std::lock_guard lock{mutex_};
  uint64_t const before = lost_size_;
  if (size < file_size_) {
    lose(size, size_);
    file_size_ = size;
  }
  if (pages != lost_page_count_) {
    lost_page_count_ = pages;
    uint64_t const page_size = guard_->page_size();
    for (uint64_t i = 0; i < size_ / page_size; i++)
      if (guard_->is_lost(i))
        lose(i * page_size, (i + 1) * page_size);
  }
  if (lost_size_ == before)
    return false;
  log(log_level::error,
      "pool: %llu of %llu bytes of %s are lost: somebody has cut the file, or it cannot be read",
      printed_size(lost_size_), printed_size(size_), path_.c_str());
  return true;
}

bool backing_file::is_lost(uint64_t offset, uint64_t size) const {
  if (lost_size() == 0 || size == 0)
    return false;
  std::lock_guard lock{mutex_};
  auto const after = lost_.lower_bound(offset + size);
  return after != lost_.begin() && std::prev(after)->second > offset;
}

void backing_file::visit_whole(
    uint64_t offset, uint64_t size,
    const std::function<void(uint64_t offset, uint64_t size)> &take) const {
  uint64_t const end = offset + size;
  std::lock_guard lock{mutex_};
  auto at = lost_.upper_bound(offset);
  if (at != lost_.begin())
    offset = std::max(offset, std::prev(at)->second);
  for (; offset < end; ++at) {
    uint64_t const until = at == lost_.end() ? end : std::min(end, at->first);
    take(offset, until - offset);
    if (at == lost_.end())
      return;
    offset = at->second;
  }
}

status backing_file::sync(uint64_t offset, uint64_t size) {
  auto const page_size = uint64_t(guard_->page_size());
  uint64_t const begin = offset & ~(page_size - 1);
  if (msync(addr_ + begin, offset + size - begin, MS_SYNC) != 0) {
    return fail(status::io, "%s: syncing %llu bytes: %s", path_.c_str(), printed_size(size),
                std::strerror(errno));
  }
  if (is_removed_)
    return fail(status::io, "%s was removed: nobody will find what is written to it",
                path_.c_str());
  return status::ok;
}

}  // namespace tanada::poold
