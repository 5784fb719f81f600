// The pool's memory: allocation from segments, and the syncs of a backing file.
#include "products/poold/pool_memory.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/checked.hpp"
#include "core/base/log.hpp"

namespace tanada::poold {
namespace {

// Small objects are aligned to cache lines, larger ones to pages, which a client can map
// contiguously.
constexpr uint64_t small_alignment = 64, page_size = 4096;
constexpr uint64_t large_size = 16 * page_size;
// What a disk writes in the time of a sync: a gap of dirty pages between two ranges then costs no
// more than a second sync.
constexpr uint64_t sync_gap_max = uint64_t{2} << 20;
static_assert(page_size % small_alignment == 0 && large_size % page_size == 0);
static_assert(pool_memory::granule_min % page_size == 0);

uint64_t aligned_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace

std::byte *pool_memory::addr(const pool_extent &part) const {
  lock_guard lock{mutex_};
  segment const &seg = segments_.at(part.segment);
  TND_ASSERT(seg.addr != nullptr && range_fits(part.offset, part.size, seg.size));
  return seg.addr + part.offset;
}

uint64_t pool_memory::used() const {
  lock_guard lock{mutex_};
  return used_;
}

memory_usage pool_memory::usage() const {
  lock_guard lock{mutex_};
  memory_usage current{.capacity = capacity(), .used = used_, .quarantined = quarantine_size_};
  if (!binds_segments())
    current.owned = used_;
  else
    current.owned = capacity_ - unowned_size_ - quarantine_size_ - spare_size_;
  return current;
}

owner_usage pool_memory::usage_of(uint64_t owner) const {
  if (!binds_segments())
    return {};
  lock_guard lock{mutex_};
  auto const it = owned_.find(owner);
  if (it == owned_.end())
    return {};
  return {it->second.size, it->second.segment_count};
}

// Adjacent free extents are always merged, so a wholly free segment of a file has exactly one.
bool pool_memory::is_free(const segment &seg) const {
  if (binds_segments())
    return seg.used == 0;
  return seg.free.size() == 1 && seg.free.begin()->second == seg.size;  // no lost bytes
}

void pool_memory::add_free(uint32_t number, uint64_t offset, uint64_t size) {
  TND_ASSERT(mutex_.is_held());
  segment &seg = segments_.at(number);
  TND_ASSERT(size > 0 && range_fits(offset, size, seg.size));
  auto &sizes = owned_.at(seg.owner).free;
  auto following = seg.free.lower_bound(offset);
  if (following != seg.free.end() && offset + size == following->first) {
    size += following->second;
    sizes.erase({following->second, number, following->first});
    following = seg.free.erase(following);
  }
  if (following != seg.free.begin()) {
    auto previous = std::prev(following);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      size += previous->second;
      sizes.erase({previous->second, number, previous->first});
      seg.free.erase(previous);
    }
  }
  seg.free[offset] = size;
  sizes.insert({size, number, offset});
}

// Lost bytes are never allocated again, so they are left out.
void pool_memory::add_free_intact(uint32_t number, uint64_t offset, uint64_t size) {
  if (file_ == nullptr || file_->lost_size() == 0)
    return add_free(number, offset, size);
  uint64_t const base = number * options_.segment_size;  // segments of a file keep their numbers
  file_->visit_intact(base + offset, size, [&](uint64_t intact_offset, uint64_t part) {
    mutex_.assert_held();
    uint64_t const begin = aligned_up(intact_offset - base, small_alignment);
    uint64_t const end = (intact_offset - base + part) & ~(small_alignment - 1);
    if (begin < end)
      add_free(number, begin, end - begin);
  });
}

// Remove lost bytes from the free extents.
void pool_memory::remove_lost() {
  TND_ASSERT(mutex_.is_held());
  TND_ASSERT(file_ != nullptr);
  for (auto const &[number, seg] : segments_) {
    uint64_t const base = number * options_.segment_size;
    if (unowned_.contains({seg.size, number})) {
      if (file_->is_lost(base, seg.size))
        erase_unowned(number);
      continue;
    }
    auto const free = seg.free;  // a copy, because the loop changes the original
    for (auto const &[offset, size] : free) {
      if (!file_->is_lost(base + offset, size))
        continue;
      use_front({size, number, offset}, size);
      add_free_intact(number, offset, size);
    }
  }
}

// Mark the first `used_size` bytes of a free extent as used.
void pool_memory::use_front(const free_extent &place, uint64_t used_size) {
  segment &seg = segments_.at(place.segment);
  auto &sizes = owned_.at(seg.owner).free;
  TND_ASSERT(mutex_.is_held());
  TND_ASSERT(used_size <= place.size);
  TND_ASSERT(sizes.erase(place) == 1);
  TND_ASSERT(seg.free.erase(place.offset) == 1);
  if (used_size == place.size)
    return;
  seg.free[place.offset + used_size] = place.size - used_size;
  sizes.insert({place.size - used_size, place.segment, place.offset + used_size});
}

// Allocate up to `size` bytes of a free extent. False: no aligned byte of it is usable.
bool pool_memory::allocate_from(const free_extent &place,
                                uint64_t size,
                                uint64_t alignment,
                                pool_extent &allocated) {
  TND_ASSERT(mutex_.is_held());
  uint64_t const begin = aligned_up(place.offset, alignment), end = place.offset + place.size;
  if (begin >= end)
    return false;
  uint64_t part_size = std::min(size, end - begin);
  if (part_size < size)
    part_size &= ~(alignment - 1);
  if (part_size == 0)
    return false;
  use_front(place, begin - place.offset + part_size);
  if (begin > place.offset)
    add_free(place.segment, place.offset, begin - place.offset);
  segments_.at(place.segment).used += part_size;
  allocated = {place.segment, begin, part_size};
  return true;
}

// Allocate from the smallest extent that holds all `size` bytes.
bool pool_memory::allocate_best_fit(uint64_t owner,
                                    uint64_t size,
                                    uint64_t alignment,
                                    pool_extent &allocated) {
  auto const it = owned_.find(owner);
  if (it == owned_.end())
    return false;
  auto const &sizes = it->second.free;
  auto best = sizes.lower_bound({size, 0, 0});
  // Extents that small objects left may be unaligned; one extra page makes up for that.
  bool const is_aligned = best != sizes.end() && best->offset % alignment == 0;
  if (!is_aligned)
    best = sizes.lower_bound({size + alignment, 0, 0});
  return best != sizes.end() && allocate_from(free_extent{*best}, size, alignment, allocated);
}

bool pool_memory::allocate_largest(uint64_t owner,
                                   uint64_t size,
                                   uint64_t alignment,
                                   pool_extent &allocated) {
  auto const it = owned_.find(owner);
  if (it == owned_.end() || it->second.free.empty())
    return false;
  return allocate_from(free_extent{*it->second.free.rbegin()}, size, alignment, allocated);
}

// A new segment is preferred to fragments of the owner's segments.
bool pool_memory::allocate_piece(uint64_t owner,
                                 uint64_t size,
                                 uint64_t alignment,
                                 pool_extent &allocated) {
  if (allocate_best_fit(owner, size, alignment, allocated))
    return true;
  uint32_t number = 0;
  if (add_segment(owner, size, number) == status::ok) {
    return allocate_from({segments_.at(number).size, number, 0}, size, alignment, allocated);
  }
  return allocate_largest(owner, size, alignment, allocated);
}

uint64_t pool_memory::allocated_size(uint64_t size) {
  return aligned_up(size, size >= large_size ? page_size : small_alignment);
}

result<std::vector<pool_extent>> pool_memory::allocate(uint64_t requesting_owner, uint64_t size) {
  uint64_t const owner = segment_owner(requesting_owner);
  std::vector<pool_extent> pieces;
  if (size == 0)
    return pieces;
  update_hold();
  if (is_held())
    return status::again;
  uint64_t const alignment = size >= large_size ? page_size : small_alignment;
  uint64_t rest = 0;
  if (!checked_align_up(size, alignment, rest))
    return status::no_space;
  unique_lock lock{mutex_};
  while (rest > 0) {
    pool_extent allocated;
    uint64_t const wanted = std::min(rest, options_.segment_size);
    if (pieces.size() == wire::pool::extent_count_max)
      break;
    if (!allocate_piece(owner, wanted, alignment, allocated))
      break;
    TND_ASSERT(allocated.size > 0 && allocated.size <= rest);
    rest -= allocated.size;
    used_ += allocated.size;
    pieces.push_back(allocated);
  }
  if (rest == 0)
    return pieces;
  lock.unlock();
  release(pieces);
  return status::no_space;
}

void pool_memory::release(std::span<const pool_extent> pieces) {
  lock_guard lock{mutex_};
  for (const pool_extent &part : pieces) {
    segment &seg = segments_.at(part.segment);
    add_free_intact(part.segment, part.offset, part.size);
    TND_ASSERT(seg.used >= part.size && used_ >= part.size);
    seg.used -= part.size;
    used_ -= part.size;
    if (is_free(seg))
      unassign_segment(part.segment);
  }
}

status pool_memory::claim(uint64_t owner, std::span<const pool_extent> pieces) {
  unique_lock lock{mutex_};
  size_t done = 0;
  status code = status::ok;
  for (const pool_extent &part : pieces) {
    code = claim_piece(segment_owner(owner), part);
    if (code != status::ok)
      break;
    used_ += part.size;
    done++;
  }
  lock.unlock();
  if (code != status::ok)
    release(pieces.first(done));
  return code;
}

status pool_memory::claim_piece(uint64_t owner, const pool_extent &part) {
  TND_ASSERT(mutex_.is_held());
  bool const is_aligned = part.offset % small_alignment == 0 && part.size % small_alignment == 0;
  auto const it = segments_.find(part.segment);
  bool const fits = it != segments_.end() && range_fits(part.offset, part.size, it->second.size);
  if (part.size == 0 || !is_aligned || !fits)
    return status::invalid;
  segment &seg = it->second;
  if (unowned_.contains({seg.size, part.segment})) {
    erase_unowned(part.segment);
    assign_segment(part.segment, owner);
  }
  auto extent_it = seg.free.upper_bound(part.offset);
  if (extent_it == seg.free.begin())
    return status::busy;
  --extent_it;
  uint64_t const offset = extent_it->first, size = extent_it->second;
  if (part.offset + part.size > offset + size)
    return status::busy;
  if (seg.owner != owner)
    return status::invalid;
  use_front({size, part.segment, offset}, part.offset + part.size - offset);
  seg.used += part.size;
  if (part.offset > offset)
    add_free(part.segment, offset, part.offset - offset);
  return status::ok;
}

void pool_memory::add_pieces_at(uint64_t offset,
                                uint64_t size,
                                std::vector<pool_extent> &pieces) const {
  uint64_t rest = aligned_up(size, small_alignment);
  while (rest > 0) {
    uint64_t const start = offset % options_.segment_size;
    uint64_t const part_size = std::min(rest, options_.segment_size - start);
    pieces.push_back({uint32_t(offset / options_.segment_size), start, part_size});
    offset += part_size;
    rest -= part_size;
  }
}

// The ranges to sync: at most sync_count_max, in order. In persistent memory all pieces.
std::vector<backing_file::range> pool_memory::sync_ranges(
    std::span<const sync_request> requests) const {
  using file_range = backing_file::range;
  std::vector<file_range> ranges, merged;
  for (const sync_request &request : requests) {
    for (const pool_extent &part : request.pieces)
      ranges.push_back({file_offset(part), part.size});
  }
  if (is_persistent())
    return ranges;
  std::sort(ranges.begin(), ranges.end(), [](const file_range &lhs, const file_range &rhs) {
    return lhs.offset < rhs.offset;
  });
  auto const end_of = [](const file_range &range) {
    return range.offset + range.size;
  };
  for (const file_range &next : ranges) {
    bool const is_near = !merged.empty() && next.offset <= end_of(merged.back()) + sync_gap_max;
    if (is_near)
      merged.back().size = std::max(end_of(merged.back()), end_of(next)) - merged.back().offset;
    else
      merged.push_back(next);
  }
  if (merged.size() > sync_count_max)
    return {{merged.front().offset, end_of(merged.back()) - merged.front().offset}};
  return merged;
}

void pool_memory::sync(std::span<sync_request> requests) {
  TND_ASSERT(file_ != nullptr);
  status const code = file_->sync(sync_ranges(requests));
  // Neither msync() nor a flush reports an error for lost pages.
  check_losses();
  for (sync_request &request : requests) {
    request.outcome = code;
    if (code == status::ok && is_lost(request.pieces, ~uint64_t{0}))
      request.outcome = fail(status::io, "{} has lost bytes", options_.file);
  }
}

status pool_memory::sync(std::span<const pool_extent> pieces) {
  sync_request request{{pieces.begin(), pieces.end()}};
  sync({&request, 1});
  return request.outcome;
}

void pool_memory::update_hold() {
  if (!is_held() || file_->has_old_clients())
    return;
  if (is_held_.exchange(false))
    log(log_level::info, "pool: no client of a previous daemon has {} mapped", options_.file);
}

void pool_memory::check_losses() {
  update_hold();
  if (file_ == nullptr || !file_->check_losses())
    return;
  lock_guard lock{mutex_};
  remove_lost();
  loss_count_++;
}

bool pool_memory::is_lost(std::span<const pool_extent> pieces, uint64_t size) const {
  if (file_ == nullptr || file_->lost_size() == 0)
    return false;
  for (const pool_extent &tested : pieces) {
    uint64_t const part = std::min(size, tested.size);
    if (file_->is_lost(file_offset(tested), part))
      return true;
    size -= part;
  }
  return false;
}

}  // namespace tanada::poold
