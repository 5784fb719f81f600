// backends/linux/range_allocator.cc: a best-fit allocator of offsets, whose metadata is outside the
// managed memory.
#include "seams/os/range_allocator.hpp"

#include <boost/multi_index/composite_key.hpp>
#include <boost/multi_index/member.hpp>
#include <boost/multi_index/ordered_index.hpp>
#include <boost/multi_index_container.hpp>
#include <iterator>
#include <unordered_map>

#include "core/base/assert.hpp"
#include "core/base/checked.hpp"

namespace tanada::seams {
namespace {

namespace index = boost::multi_index;

struct free_range {
  size_t offset, size;
};
struct by_offset;
struct by_size;
using free_range_set = boost::multi_index_container<
    free_range,
    index::indexed_by<
        index::ordered_unique<index::tag<by_offset>,
                              index::member<free_range, size_t, &free_range::offset>>,
        index::ordered_unique<
            index::tag<by_size>,
            index::composite_key<free_range,
                                 index::member<free_range, size_t, &free_range::size>,
                                 index::member<free_range, size_t, &free_range::offset>>>>>;

}  // namespace

struct range_allocator::metadata {
  size_t granule;
  free_range_set free;
  std::unordered_map<size_t, size_t> allocated;  // size by offset
  size_t free_size = 0;

  std::optional<size_t> rounded(size_t size) const {
    size_t aligned_size = 0;
    if (size == 0 || !checked_align_up(size, granule, aligned_size))
      return std::nullopt;
    return aligned_size;
  }
  void add_free(size_t offset, size_t size);
  void cut(free_range_set::index<by_offset>::type::iterator range, size_t offset, size_t size);
};

// Merges the range with the free ranges on both sides.
void range_allocator::metadata::add_free(size_t offset, size_t size) {
  free_size += size;
  auto &offset_index = free.get<by_offset>();
  auto next = offset_index.lower_bound(offset);
  TND_ASSERT(size != 0 && (next == offset_index.end() || next->offset >= offset + size));
  if (next != offset_index.end() && next->offset == offset + size) {
    size += next->size;
    next = offset_index.erase(next);
  }
  if (next != offset_index.begin()) {
    auto const previous = std::prev(next);
    TND_ASSERT(previous->offset + previous->size <= offset);
    if (previous->offset + previous->size == offset) {
      offset = previous->offset;
      size += previous->size;
      offset_index.erase(previous);
    }
  }
  free.insert({offset, size});
}

// The parts of the range before and after the allocation stay free.
void range_allocator::metadata::cut(free_range_set::index<by_offset>::type::iterator range,
                                    size_t offset,
                                    size_t size) {
  free_range const full_range = *range;
  TND_ASSERT(full_range.offset <= offset && offset + size <= full_range.offset + full_range.size);
  free.get<by_offset>().erase(range);
  TND_ASSERT(free_size >= size);
  free_size -= size;
  if (offset != full_range.offset)
    free.insert({full_range.offset, offset - full_range.offset});
  size_t const end = offset + size, whole_end = full_range.offset + full_range.size;
  if (end != whole_end)
    free.insert({end, whole_end - end});
}

range_allocator::range_allocator(size_t size, size_t granule)
    : metadata_{std::make_unique<metadata>()} {
  TND_ASSERT(granule != 0 && (granule & (granule - 1)) == 0);
  metadata_->granule = granule;
  size &= ~(granule - 1);
  if (size != 0)
    metadata_->add_free(0, size);
}

range_allocator::~range_allocator() = default;

std::optional<size_t> range_allocator::allocate(size_t size, size_t alignment) {
  auto const rounded_size = metadata_->rounded(size);
  if (!rounded_size)
    return std::nullopt;
  // A large enough range may be too small after its beginning is aligned.
  auto &size_index = metadata_->free.get<by_size>();
  for (auto fit = size_index.lower_bound(*rounded_size); fit != size_index.end(); ++fit) {
    size_t offset = 0;
    if (!checked_align_up(fit->offset, alignment, offset))
      continue;
    if (offset - fit->offset > fit->size - *rounded_size)
      continue;
    metadata_->cut(metadata_->free.project<by_offset>(fit), offset, *rounded_size);
    metadata_->allocated.emplace(offset, *rounded_size);
    return offset;
  }
  return std::nullopt;
}

bool range_allocator::release(size_t offset) {
  auto const it = metadata_->allocated.find(offset);
  if (it == metadata_->allocated.end())
    return false;
  metadata_->add_free(offset, it->second);
  metadata_->allocated.erase(it);
  return true;
}

std::optional<size_t> range_allocator::size_of(size_t offset) const {
  auto const it = metadata_->allocated.find(offset);
  if (it == metadata_->allocated.end())
    return std::nullopt;
  return it->second;
}

bool range_allocator::resize(size_t offset, size_t size) {
  auto const rounded_size = metadata_->rounded(size);
  auto const it = metadata_->allocated.find(offset);
  if (!rounded_size || it == metadata_->allocated.end())
    return false;
  if (*rounded_size < it->second) {
    metadata_->add_free(offset + *rounded_size, it->second - *rounded_size);
  } else if (*rounded_size > it->second) {
    size_t const more = *rounded_size - it->second, end = offset + it->second;
    auto const next = metadata_->free.get<by_offset>().find(end);
    if (next == metadata_->free.get<by_offset>().end() || next->size < more)
      return false;
    metadata_->cut(next, end, more);
  }
  it->second = *rounded_size;
  return true;
}

size_t range_allocator::free_size() const noexcept {
  return metadata_->free_size;
}

}  // namespace tanada::seams
