#include "poold/space.hpp"

#include <algorithm>
#include <cstring>

#include "base/checked.hpp"
#include "base/log.hpp"

namespace tanada::poold {
namespace {

// Small objects lie at cache lines, others at pages, which a client can map one after the other.
constexpr uint64_t small_alignment = 64, page_size = 4096;
constexpr uint64_t large_size = 16 * page_size;
constexpr uint64_t drop_wait_ns = 1'000'000'000;  // others who allocate wait as long

uint64_t aligned_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

}  // namespace

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
uint32_t space::best_unowned(uint64_t owner) const {
  uint32_t best = *unowned_.begin();
  for (uint32_t const candidate : unowned_) {
    uint64_t const before = segments_[candidate].owner;
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
status space::take_slot(uint64_t owner, uint32_t &index) {
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
  own(index, owner);
  return status::ok;
}

// All of a slot that was nobody's is free for the owner.
void space::own(uint32_t index, uint64_t owner) {
  segments_[index].owner = owner;
  segments_[index].free[0] = options_.segment_size;
  free_by_size_[owner].insert({options_.segment_size, index, 0});
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
bool space::take_best(uint64_t owner, uint64_t size, uint64_t alignment, std::vector<piece> &pieces, uint64_t &got) {
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

result<std::vector<piece>> space::allocate(uint64_t asking_owner, uint64_t size) {
  uint64_t const owner = segment_owner(asking_owner);
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
  release(pieces);
  return status::no_space;
}

void space::release(std::span<const piece> pieces) {
  std::lock_guard lock{mutex_};
  for (const piece &part : pieces) {
    give_whole(by_number_.at(part.segment), part.offset, part.size);
    used_ -= part.size;
  }
}

status space::claim(uint64_t owner, std::span<const piece> pieces) {
  std::unique_lock lock{mutex_};
  size_t done = 0;
  status code = status::ok;
  for (const piece &one : pieces) {
    code = claim_one(segment_owner(owner), one);
    if (code != status::ok) break;
    used_ += one.size, done++;
  }
  lock.unlock();
  if (code != status::ok) release(pieces.first(done));
  return code;
}

status space::claim_one(uint64_t owner, const piece &part) {
  bool const is_aligned = part.offset % small_alignment == 0 && part.size % small_alignment == 0;
  bool const fits = part.segment < segments_.size() && range_fits(part.offset, part.size, options_.segment_size);
  if (part.size == 0 || !is_aligned || !fits) return status::invalid;
  slot &home = segments_[part.segment];
  if (unowned_.erase(part.segment) != 0) own(part.segment, owner);
  auto place = home.free.upper_bound(part.offset);
  if (place == home.free.begin()) return status::busy;
  --place;
  uint64_t const offset = place->first, size = place->second;
  if (part.offset + part.size > offset + size) return status::busy;
  if (home.owner != owner) return status::invalid;
  cut(part.segment, offset, size, part.offset + part.size - offset);
  if (part.offset > offset) give(part.segment, offset, part.offset - offset);
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
