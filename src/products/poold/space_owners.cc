// Which segments a namespace has: how large a new one is, what becomes of those that nobody owns.
#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/space.hpp"

namespace tanada::poold {
namespace {

constexpr uint64_t drop_wait_ns = 1'000'000'000;  // others who allocate wait as long

// From this part of a whole segment on, an owner gets a whole one while half of the pool is free:
// those of the start have their pages already, so that the first writes are as fast as the rest.
constexpr uint64_t whole_divisor = 16;
// A segment beyond what is needed at once takes this part of what is free at most.
constexpr uint64_t growth_divisor = 8;

}  // namespace

void space::insert_unowned(uint32_t number) {
  segment const &free = segments_.at(number);
  unowned_.insert({free.size, number});
  unowned_by_owner_.insert({free.owner, free.size, number});
  unowned_size_ += free.size;
}

void space::erase_unowned(uint32_t number) {
  segment const &free = segments_.at(number);
  TND_ASSERT(unowned_.erase({free.size, number}) == 1);
  unowned_by_owner_.erase({free.owner, free.size, number});
  unowned_size_ -= free.size;
}

// All of a segment that is in no list is free for the owner.
void space::own(uint32_t number, uint64_t owner) {
  segment &taken = segments_.at(number);
  TND_ASSERT(taken.free.empty() && taken.used == 0);
  taken.owner = owner;
  taken.free[0] = taken.size;
  owned_memory &all = owned_[owner];
  all.free.insert({taken.size, number, 0});
  all.size += taken.size;
  all.segment_count++;
}

// A segment with nothing in it is nobody's.
void space::disown(uint32_t number) {
  segment &left = segments_.at(number);
  owned_memory &all = owned_.at(left.owner);
  for (auto const &[offset, size] : left.free)
    all.free.erase({size, number, offset});
  left.free.clear();
  all.size -= left.size;
  if (--all.segment_count == 0)
    owned_.erase(left.owner);
  insert_unowned(number);
}

// Doubling what the owner has keeps both small: its unused bytes, and the number of its segments.
uint64_t space::wanted_size(uint64_t owner, uint64_t needed) const {
  if (!is_lendable())
    return options_.segment_size;
  auto const found = owned_.find(owner);
  uint64_t const held = found == owned_.end() ? 0 : found->second.size;
  uint64_t const free_size = unowned_size_ + spare_size_;
  uint64_t const doubled = std::min(std::bit_floor(held), options_.segment_size);
  uint64_t const wanted = std::max({std::bit_ceil(needed), doubled, granule_});
  bool const is_plenty = free_size >= capacity_ / 2;
  if (is_plenty && wanted >= options_.segment_size / whole_divisor)
    return options_.segment_size;
  uint64_t const least = (needed + granule_ - 1) & ~(granule_ - 1);
  return std::max(least, std::min(wanted, std::bit_floor(free_size / growth_divisor)));
}

// One that was the owner's before, or else one that was nobody's, since what was another's has to
// be cleared; of these the smallest.
bool space::find_unowned(uint64_t owner, uint64_t size_min, uint64_t size_max,
                         uint32_t &number) const {
  for (uint64_t const before : {owner, no_owner}) {
    auto const best = unowned_by_owner_.lower_bound({before, size_min, 0});
    if (best == unowned_by_owner_.end() || best->before != before)
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

// no_space: there is none of such a size.
status space::take_unowned(uint64_t owner, uint64_t size_min, uint64_t size_max, uint32_t &number) {
  while (find_unowned(owner, size_min, size_max, number)) {
    erase_unowned(number);
    status const code = clean(owner, number);
    if (code == status::ok)
      own(number, owner);
    if (code != status::again)
      return code;
  }
  return status::no_space;
}

// Afterwards a segment that is in no list has no bytes of other owners. One that clients map is
// made new, with another number. again: a transfer may touch it still, and it is held back.
status space::clean(uint64_t owner, uint32_t &number) {
  segment &taken = segments_.at(number);
  if (taken.owner == owner || taken.owner == no_owner)
    return status::ok;
  if (!taken.lent) {
    std::memset(taken.addr, 0, taken.size);
    return status::ok;
  }
  if (!may_drop(taken, quarantine_.empty() ? drop_wait_ns : 0)) {
    hold_back(number);
    return status::again;
  }
  uint64_t const size = taken.size;
  drop_segment(number);
  return insert_segment(size, number);
}

// An unowned segment becomes the owner's: one that is there, or one that is made of others. It is
// smaller than `needed` where not that much is free.
status space::add_segment(uint64_t owner, uint64_t needed, uint32_t &number) {
  release_held_back();
  uint64_t const free_size = unowned_size_ + spare_size_;
  if (free_size < needed)
    reclaim(needed - free_size);
  uint64_t const size = std::min(wanted_size(owner, needed), unowned_size_ + spare_size_);
  if (size == 0)
    return status::no_space;
  return bind_segment(owner, size, number);
}

// The size is what is wanted: not twice as much, as long as the system's limits allow that.
status space::bind_segment(uint64_t owner, uint64_t size, uint32_t &number) {
  if (take_unowned(owner, size, 2 * size - 1, number) == status::ok)
    return status::ok;
  if (!is_lendable())
    return status::no_space;
  if (make_segment(owner, size, number) == status::ok)
    return status::ok;
  // Limits of the system are no reason to refuse what is there.
  if (take_unowned(owner, size, capacity_, number) == status::ok)
    return status::ok;
  return take_unowned(owner, granule_, capacity_, number);
}

void space::reserve(uint64_t owner, uint64_t size) {
  if (!is_lendable())
    return;
  std::lock_guard lock{mutex_};
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

void space::end_reservations() {
  if (!is_lendable())
    return;
  std::lock_guard lock{mutex_};
  for (auto const &[number, each] : segments_) {
    bool const is_owned = !each.free.empty();
    if (is_owned && each.used == 0)
      disown(number);
  }
}

// Of memory that nobody owns.
status space::make_segment(uint64_t owner, uint64_t size, uint32_t &number) {
  bool const takes_place_of_one = !unowned_.empty() && unowned_.begin()->first <= size;
  bool const is_over = segments_.size() >= options_.segment_count_max && !takes_place_of_one;
  if (is_over)
    return status::no_space;
  status code = gather(size);
  if (code == status::ok)
    code = insert_segment(size, number);
  if (code == status::ok)
    own(number, owner);
  use_up_spare();
  return code;
}

// A segment of spare memory, in no list yet. On failure the memory stays spare: a pool that has
// lost memory to the system tries again later.
status space::insert_segment(uint64_t size, uint32_t &number) {
  segment made{.size = size};
  TND_TRY(make_memory(made, 0));
  while (segments_.contains(next_number_))
    next_number_++;
  number = next_number_++;
  segments_.emplace(number, std::move(made));
  spare_size_ -= size;
  return status::ok;
}

// Have so much spare memory, of the smallest segments first. A client may map those that were lent:
// they are dropped as a whole, and come last.
status space::gather(uint64_t size) {
  for (bool const lent : {false, true}) {
    for (auto at = unowned_.begin(); at != unowned_.end() && spare_size_ < size;) {
      uint32_t const number = (at++)->second;
      if (segments_.at(number).lent == lent)
        hand_in(number, size - spare_size_);
    }
  }
  return spare_size_ >= size ? status::ok : status::no_space;
}

// So much of an unowned segment becomes spare, or all of it.
void space::hand_in(uint32_t number, uint64_t size) {
  segment &from = segments_.at(number);
  if (!may_drop(from, quarantine_.empty() ? drop_wait_ns : 0)) {
    erase_unowned(number);
    return hold_back(number);
  }
  erase_unowned(number);
  if (size < from.size && !from.lent && shrink(from, from.size - size)) {
    spare_size_ += size;
    insert_unowned(number);
  } else {
    drop_segment(number);
  }
}

// Where the pool is full, owners give back the free ends of their segments, up to `size` bytes in
// all; not of those that clients map, whose size is fixed, and not while a fabric knows the memory.
void space::reclaim(uint64_t size) {
  bool const is_over = segments_.size() >= options_.segment_count_max;
  if (!is_lendable() || dropping_ || is_over)
    return;
  uint64_t const wanted = spare_size_ + size;
  for (auto &[number, each] : segments_) {
    if (spare_size_ >= wanted)
      return;
    if (each.lent || each.free.empty())
      continue;
    auto const last = std::prev(each.free.end());
    extent const end{last->second, number, last->first};
    uint64_t const kept_size = (end.offset + granule_ - 1) & ~(granule_ - 1);
    if (end.offset + end.size != each.size || kept_size >= each.size)
      continue;
    TND_ASSERT(kept_size > 0);
    uint64_t const given_size = each.size - kept_size;
    if (!shrink(each, kept_size))
      continue;
    cut(end, end.size);
    if (given_size < end.size)
      give(number, end.offset, end.size - given_size);
    owned_.at(each.owner).size -= given_size;
    spare_size_ += given_size;
  }
}

// The pool keeps the memory that it had from the start.
void space::use_up_spare() {
  while (options_.prefault && spare_size_ > 0 && segments_.size() < options_.segment_count_max) {
    uint32_t number = 0;
    uint64_t const size = std::min(spare_size_, options_.segment_size);
    if (insert_segment(size, number) != status::ok)
      return;
    insert_unowned(number);
  }
}

void space::drop_segment(uint32_t number) {
  auto const old = segments_.find(number);
  drop_memory(old->second);
  spare_size_ += old->second.size;
  segments_.erase(old);
}

void space::hold_back(uint32_t number) {
  uint64_t const size = segments_.at(number).size;
  log(log_level::warning, "pool: %llu bytes are out of use: a transfer may still touch them",
      static_cast<unsigned long long>(size));
  quarantine_.insert(number);
  quarantine_size_ += size;
}

// Segments in quarantine are asked for without waiting.
void space::release_held_back() {
  std::erase_if(quarantine_, [this](uint32_t number) {
    segment const &held = segments_.at(number);
    if (!may_drop(held, 0))
      return false;
    uint64_t const size = held.size;
    quarantine_size_ -= size;
    drop_segment(number);
    uint32_t renewed = 0;
    if (insert_segment(size, renewed) == status::ok)
      insert_unowned(renewed);
    return true;
  });
}

}  // namespace tanada::poold
