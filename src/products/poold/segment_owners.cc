// Assignment of segments to namespaces: the size of a new segment, and the reuse of unowned ones.
#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/pool_memory.hpp"

namespace tanada::poold {
namespace {

constexpr uint64_t drop_wait_ns = 1'000'000'000;  // all other allocations wait meanwhile

// While half of the pool is free, an owner that needs at least this fraction of a segment gets a
// whole one. The segments of the start have their pages already, which keeps first writes fast.
constexpr uint64_t whole_divisor = 16;
// A segment larger than the current need takes at most this fraction of the free memory.
constexpr uint64_t growth_divisor = 8;

}  // namespace

void pool_memory::insert_unowned(uint32_t number) {
  segment const &seg = segments_.at(number);
  TND_ASSERT(mutex_.is_held());
  TND_ASSERT(seg.used == 0 && seg.free.empty());
  TND_ASSERT(unowned_.insert({seg.size, number}).second);
  unowned_by_owner_.insert({seg.owner, seg.size, number});
  unowned_size_ += seg.size;
}

void pool_memory::erase_unowned(uint32_t number) {
  segment const &seg = segments_.at(number);
  TND_ASSERT(mutex_.is_held());
  TND_ASSERT(unowned_size_ >= seg.size);
  TND_ASSERT(unowned_.erase({seg.size, number}) == 1);
  unowned_by_owner_.erase({seg.owner, seg.size, number});
  unowned_size_ -= seg.size;
}

// The owner gets a segment that is in no list, wholly free.
void pool_memory::assign_segment(uint32_t number, uint64_t owner) {
  segment &seg = segments_.at(number);
  TND_ASSERT(seg.free.empty() && seg.used == 0);
  TND_ASSERT(owner != no_owner && !unowned_.contains({seg.size, number}));
  seg.owner = owner;
  seg.free[0] = seg.size;
  owned_memory &memory = owned_[owner];
  memory.free.insert({seg.size, number, 0});
  memory.size += seg.size;
  memory.segment_count++;
}

// A segment without objects has no owner.
void pool_memory::unassign_segment(uint32_t number) {
  segment &seg = segments_.at(number);
  TND_ASSERT(seg.used == 0);
  owned_memory &memory = owned_.at(seg.owner);
  TND_ASSERT(memory.segment_count > 0 && memory.size >= seg.size);
  for (auto const &[offset, size] : seg.free)
    memory.free.erase({size, number, offset});
  seg.free.clear();
  memory.size -= seg.size;
  if (--memory.segment_count == 0)
    owned_.erase(seg.owner);
  insert_unowned(number);
}

// Doubling the owner's memory bounds both its unused bytes and the number of its segments.
uint64_t pool_memory::segment_size_for(uint64_t owner, uint64_t needed) const {
  if (!binds_segments())
    return options_.segment_size;
  auto const it = owned_.find(owner);
  uint64_t const held = it == owned_.end() ? 0 : it->second.size;
  uint64_t const free_size = unowned_size_ + spare_size_;
  uint64_t const doubled = std::min(std::bit_floor(held), options_.segment_size);
  uint64_t const wanted = std::max({std::bit_ceil(needed), doubled, granule_});
  bool const is_plenty = free_size >= capacity_ / 2;
  if (is_plenty && wanted >= options_.segment_size / whole_divisor)
    return options_.segment_size;
  uint64_t const least = (needed + granule_ - 1) & ~(granule_ - 1);
  return std::max(least, std::min(wanted, std::bit_floor(free_size / growth_divisor)));
}

// Prefer a segment that belonged to the owner before, then one that never had an owner. All others
// have to be cleared. The smallest that fits is chosen.
bool pool_memory::find_unowned(uint64_t owner,
                               uint64_t size_min,
                               uint64_t size_max,
                               uint32_t &number) const {
  for (uint64_t const last_owner : {owner, no_owner}) {
    auto const best = unowned_by_owner_.lower_bound({last_owner, size_min, 0});
    if (best == unowned_by_owner_.end() || best->last_owner != last_owner)
      continue;
    if (best->size > size_max)
      continue;
    number = best->number;
    return true;
  }
  auto const best = unowned_.lower_bound({size_min, 0});
  if (best == unowned_.end() || best->first > size_max)
    return false;
  number = best->second;
  return true;
}

// no_space: no unowned segment has such a size.
status pool_memory::take_unowned(uint64_t owner,
                                 uint64_t size_min,
                                 uint64_t size_max,
                                 uint32_t &number) {
  while (find_unowned(owner, size_min, size_max, number)) {
    erase_unowned(number);
    status const code = clear_for_owner(owner, number);
    if (code == status::ok)
      assign_segment(number, owner);
    if (code != status::again)
      return code;
  }
  return status::no_space;
}

// Remove the bytes of other owners from a segment that is in no list. A segment that clients map is
// recreated with another number. again: a transfer may still access the segment, which is now in
// quarantine.
status pool_memory::clear_for_owner(uint64_t owner, uint32_t &number) {
  segment &seg = segments_.at(number);
  if (seg.owner == owner || seg.owner == no_owner)
    return status::ok;
  if (!seg.is_exported) {
    std::memset(seg.addr, 0, seg.size);
    return status::ok;
  }
  if (!may_drop(seg, quarantine_.empty() ? drop_wait_ns : 0)) {
    quarantine_segment(number);
    return status::again;
  }
  uint64_t const size = seg.size;
  drop_segment(number);
  return insert_segment(size, number);
}

// Assign an unowned segment to the owner, or create one from the memory of others. It is smaller
// than `needed` where less is free. no_space: nothing is free.
status pool_memory::add_segment(uint64_t owner, uint64_t needed, uint32_t &number) {
  release_quarantine();
  uint64_t const free_size = unowned_size_ + spare_size_;
  if (free_size < needed)
    reclaim(needed - free_size);
  uint64_t const size = std::min(segment_size_for(owner, needed), unowned_size_ + spare_size_);
  if (size == 0)
    return status::no_space;
  return bind_segment(owner, size, number);
}

// Choose a segment of at least `size`, and less than twice that unless the system's limits prevent
// it.
status pool_memory::bind_segment(uint64_t owner, uint64_t size, uint32_t &number) {
  if (take_unowned(owner, size, 2 * size - 1, number) == status::ok)
    return status::ok;
  if (!binds_segments())
    return status::no_space;
  if (make_segment(owner, size, number) == status::ok)
    return status::ok;
  // A segment of another size is better than a failure because of the system's limits.
  if (take_unowned(owner, size, capacity_, number) == status::ok)
    return status::ok;
  return take_unowned(owner, granule_, capacity_, number);
}

void pool_memory::reserve(uint64_t owner, uint64_t size) {
  if (!binds_segments())
    return;
  lock_guard lock{mutex_};
  uint64_t rest = (size + granule_ - 1) & ~(granule_ - 1);
  while (rest > 0 && rest <= unowned_size_ + spare_size_) {
    uint32_t number = 0;
    uint64_t const part = std::min(rest, options_.segment_size);
    status code = take_unowned(owner, part, part, number);
    if (code != status::ok)
      code = make_segment(owner, part, number);
    if (code != status::ok)
      return;
    rest -= part;
  }
}

void pool_memory::end_reservations() {
  if (!binds_segments())
    return;
  lock_guard lock{mutex_};
  for (auto const &[number, seg] : segments_) {
    bool const is_owned = !seg.free.empty();
    if (is_owned && seg.used == 0)
      unassign_segment(number);
  }
}

// Create a segment from unowned memory and assign it to the owner.
status pool_memory::make_segment(uint64_t owner, uint64_t size, uint32_t &number) {
  bool const takes_place_of_one = !unowned_.empty() && unowned_.begin()->first <= size;
  bool const is_over = segments_.size() >= options_.segment_count_max && !takes_place_of_one;
  if (is_over)
    return status::no_space;
  status code = collect_spare(size);
  if (code == status::ok)
    code = insert_segment(size, number);
  if (code == status::ok)
    assign_segment(number, owner);
  convert_spare();
  return code;
}

// Create a segment from spare memory, in no list yet. On failure the memory stays spare, and a
// later call tries again.
status pool_memory::insert_segment(uint64_t size, uint32_t &number) {
  TND_ASSERT(mutex_.is_held());
  TND_ASSERT(size > 0 && spare_size_ >= size);
  segment new_segment{.size = size};
  TND_TRY(make_memory(new_segment, 0));
  while (segments_.contains(next_number_))
    next_number_++;
  number = next_number_++;
  segments_.emplace(number, std::move(new_segment));
  spare_size_ -= size;
  return status::ok;
}

// Collect `size` bytes of spare memory from unowned segments, the smallest first. Segments that a
// client may map can only be dropped as a whole, so they come last.
status pool_memory::collect_spare(uint64_t size) {
  for (bool const exported : {false, true}) {
    for (auto it = unowned_.begin(); it != unowned_.end() && spare_size_ < size;) {
      uint32_t const number = (it++)->second;
      if (segments_.at(number).is_exported == exported)
        make_spare(number, size - spare_size_);
    }
  }
  return spare_size_ >= size ? status::ok : status::no_space;
}

// Make `size` bytes of an unowned segment spare, or all of it where it cannot be cut.
void pool_memory::make_spare(uint32_t number, uint64_t size) {
  segment &source = segments_.at(number);
  if (!may_drop(source, quarantine_.empty() ? drop_wait_ns : 0)) {
    erase_unowned(number);
    return quarantine_segment(number);
  }
  erase_unowned(number);
  if (size < source.size && !source.is_exported && shrink(source, source.size - size)) {
    spare_size_ += size;
    insert_unowned(number);
  } else {
    drop_segment(number);
  }
}

// In a full pool, take back the free ends of owned segments, up to `size` bytes in all. Segments
// that clients map are skipped because their size is fixed. Nothing is taken back while the memory
// may be registered with a fabric.
void pool_memory::reclaim(uint64_t size) {
  bool const is_over = segments_.size() >= options_.segment_count_max;
  if (!binds_segments() || drop_hook_ || is_over)
    return;
  uint64_t const wanted = spare_size_ + size;
  for (auto &[number, seg] : segments_) {
    if (spare_size_ >= wanted)
      return;
    if (seg.is_exported || seg.free.empty())
      continue;
    auto const last = std::prev(seg.free.end());
    free_extent const end{last->second, number, last->first};
    uint64_t const kept_size = (end.offset + granule_ - 1) & ~(granule_ - 1);
    if (end.offset + end.size != seg.size || kept_size >= seg.size)
      continue;
    TND_ASSERT(kept_size > 0);
    uint64_t const freed_size = seg.size - kept_size;
    if (!shrink(seg, kept_size))
      continue;
    use_front(end, end.size);
    if (freed_size < end.size)
      add_free(number, end.offset, end.size - freed_size);
    owned_memory &memory = owned_.at(seg.owner);
    TND_ASSERT(memory.size >= freed_size);
    memory.size -= freed_size;
    spare_size_ += freed_size;
  }
}

// Turn spare memory back into segments, so that a prefaulted pool keeps its memory.
void pool_memory::convert_spare() {
  while (options_.prefault && spare_size_ > 0 && segments_.size() < options_.segment_count_max) {
    uint32_t number = 0;
    uint64_t const size = std::min(spare_size_, options_.segment_size);
    if (insert_segment(size, number) != status::ok)
      return;
    insert_unowned(number);
  }
}

void pool_memory::drop_segment(uint32_t number) {
  TND_ASSERT(mutex_.is_held());
  auto const old = segments_.find(number);
  TND_ASSERT(old != segments_.end() && old->second.used == 0);
  drop_memory(old->second);
  spare_size_ += old->second.size;
  segments_.erase(old);
}

void pool_memory::quarantine_segment(uint32_t number) {
  uint64_t const size = segments_.at(number).size;
  log(log_level::warning,
      "pool: {} bytes are in quarantine: a transfer may still access them",
      size);
  TND_ASSERT(quarantine_.insert(number).second);
  quarantine_size_ += size;
}

// The drop hook is called without a wait for segments in quarantine.
void pool_memory::release_quarantine() {
  std::erase_if(quarantine_, [this](uint32_t number) {
    mutex_.assert_held();
    segment const &seg = segments_.at(number);
    if (!may_drop(seg, 0))
      return false;
    uint64_t const size = seg.size;
    TND_ASSERT(quarantine_size_ >= size);
    quarantine_size_ -= size;
    drop_segment(number);
    uint32_t renewed = 0;
    if (insert_segment(size, renewed) == status::ok)
      insert_unowned(renewed);
    return true;
  });
}

}  // namespace tanada::poold
