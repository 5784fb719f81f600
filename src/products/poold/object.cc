// An object's memory, as ranges of bytes, and the record of which bytes were written.
#include "products/poold/object.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/assert.hpp"

namespace tanada::poold {

object::~object() {
  striped.reset();
  TND_ASSERT(!is_charged_ || owner_->used.load(std::memory_order_relaxed) >= stored_size());
  memory().release(pieces());
  set_charged(false);
}

void object::add_pieces(std::vector<pool_extent> added_pieces, bool charges) {
  TND_ASSERT(!is_cold_);
  uint64_t const charged_size = is_charged_ ? allocated_size_ : 0;
  if (scattered_ == nullptr && pieces().size() + added_pieces.size() > 1) {
    auto several = std::make_unique<scattered>();
    if (allocated_size_ != 0) {
      several->pieces.push_back(first_piece_);
      several->parts.push_back({0, first_addr_, first_piece_.size});
    }
    scattered_ = std::move(several);
  }
  for (const pool_extent &added : added_pieces) {
    std::byte *const addr = memory().addr(added);
    if (scattered_ != nullptr) {
      scattered_->parts.push_back({allocated_size_, addr, added.size});
      scattered_->pieces.push_back(added);
    } else {
      first_piece_ = added;
      first_addr_ = addr;
    }
    allocated_size_ += added.size;
  }
  is_charged_ = is_charged_ || charges;
  add_charge((is_charged_ ? allocated_size_ : 0) - charged_size);
}

void object::append_parts(uint64_t offset, uint64_t size, std::vector<iovec> &parts) const {
  TND_ASSERT(offset <= allocated_size_ && size <= allocated_size_ - offset);
  if (size == 0)
    return;
  if (scattered_ == nullptr) {
    parts.push_back({first_addr_ + offset, size});
    return;
  }
  auto it = std::upper_bound(
      scattered_->parts.begin(),
      scattered_->parts.end(),
      offset,
      [](uint64_t wanted, const part &candidate) { return wanted < candidate.begin; });
  for (--it; size > 0; ++it) {
    TND_ASSERT(it != scattered_->parts.end() && offset >= it->begin);
    uint64_t const skipped = offset - it->begin, part_size = std::min(size, it->size - skipped);
    parts.push_back({it->addr + skipped, part_size});
    offset += part_size;
    size -= part_size;
  }
}

void written_ranges::add(uint64_t offset, uint64_t size) {
  if (size == 0)
    return;
  uint64_t begin = offset, end = offset + size;
  auto it = ranges_.upper_bound(begin);
  if (it != ranges_.begin() && std::prev(it)->second >= begin) {
    --it;
    begin = it->first;
  }
  while (it != ranges_.end() && it->first <= end) {
    end = std::max(end, it->second);
    it = ranges_.erase(it);
  }
  ranges_[begin] = end;
}

void written_ranges::truncate(uint64_t size) {
  ranges_.erase(ranges_.lower_bound(size), ranges_.end());
  if (!ranges_.empty() && ranges_.rbegin()->second > size)
    ranges_.rbegin()->second = size;
}

bool written_ranges::clear_unwritten(const object &target, uint64_t size, uint64_t &budget) {
  constexpr uint64_t range_cost =
      1024;  // bytes that could be cleared in the minimum time spent on one unwritten range
  std::vector<iovec> parts;
  for (;;) {
    // Cleared bytes merge with written ones, so the first unwritten range lies directly before or
    // after the first written one.
    auto const first = ranges_.begin();
    bool const at_start = first == ranges_.end() || first->first > 0;
    auto const next = at_start ? first : std::next(first);
    uint64_t const begin = at_start ? 0 : first->second;
    uint64_t const end = next == ranges_.end() ? size : std::min(size, next->first);
    if (begin >= size)
      return true;
    if (budget == 0)
      return false;
    uint64_t const part = std::min(end - begin, budget);
    parts.clear();
    target.append_parts(begin, part, parts);
    for (const iovec &memory : parts)
      std::memset(memory.iov_base, 0, memory.iov_len);
    add(begin, part);
    budget -= std::min(budget, std::max(part, range_cost));
  }
}

}  // namespace tanada::poold
