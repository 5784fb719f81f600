#include "products/poold/object.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/assert.hpp"

namespace tanada::poold {

object::~object() {
  home_.release(pieces_);
  owner_->used.fetch_sub(allocated_size_, std::memory_order_relaxed);
}

void object::add(std::vector<piece> pieces) {
  for (const piece &one : pieces) {
    parts_.push_back({allocated_size_, home_.addr(one), one.size});
    allocated_size_ += one.size;
    owner_->used.fetch_add(one.size, std::memory_order_relaxed);
    pieces_.push_back(one);
  }
}

void object::parts_of(uint64_t offset, uint64_t size, std::vector<iovec> &parts) const {
  TND_ASSERT(offset <= allocated_size_ && size <= allocated_size_ - offset);
  if (size == 0)
    return;
  auto at = std::upper_bound(parts_.begin(), parts_.end(), offset,
                             [](uint64_t wanted, const part &one) { return wanted < one.begin; });
  for (--at; size > 0; ++at) {
    uint64_t const skipped = offset - at->begin, taken = std::min(size, at->size - skipped);
    parts.push_back({at->addr + skipped, taken});
    offset += taken;
    size -= taken;
  }
}

void written_ranges::add(uint64_t offset, uint64_t size) {
  if (size == 0)
    return;
  uint64_t begin = offset, end = offset + size;
  auto at = ranges_.upper_bound(begin);
  if (at != ranges_.begin() && std::prev(at)->second >= begin) {
    --at;
    begin = at->first;
  }
  while (at != ranges_.end() && at->first <= end) {
    end = std::max(end, at->second);
    at = ranges_.erase(at);
  }
  ranges_[begin] = end;
}

void written_ranges::cut(uint64_t size) {
  ranges_.erase(ranges_.lower_bound(size), ranges_.end());
  if (!ranges_.empty() && ranges_.rbegin()->second > size)
    ranges_.rbegin()->second = size;
}

bool written_ranges::clear_gaps(const object &target, uint64_t size, uint64_t &budget) {
  constexpr uint64_t gap_cost =
      1024;  // bytes that could be cleared in the time that a gap takes at least
  std::vector<iovec> parts;
  for (;;) {
    // What was cleared joins what was written, so the first gap is before or behind the first
    // range.
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
    target.parts_of(begin, part, parts);
    for (const iovec &one : parts)
      std::memset(one.iov_base, 0, one.iov_len);
    add(begin, part);
    budget -= std::min(budget, std::max(part, gap_cost));
  }
}

}  // namespace tanada::poold
