#include "seams/os/ledger.hpp"

#include <boost/multi_index/composite_key.hpp>
#include <boost/multi_index/member.hpp>
#include <boost/multi_index/ordered_index.hpp>
#include <boost/multi_index_container.hpp>
#include <iterator>
#include <unordered_map>

#include "core/base/assert.hpp"
#include "core/base/checked.hpp"

namespace tanada::port {
namespace {

namespace index = boost::multi_index;

struct gap {
  size_t offset, size;
};
struct by_place;
struct by_size;
using gaps = boost::multi_index_container<
    gap,
    index::indexed_by<
        index::ordered_unique<index::tag<by_place>, index::member<gap, size_t, &gap::offset>>,
        index::ordered_unique<index::tag<by_size>,
                              index::composite_key<gap, index::member<gap, size_t, &gap::size>,
                                                   index::member<gap, size_t, &gap::offset>>>>>;

}  // namespace

struct ledger::books {
  size_t granule;
  gaps free;
  std::unordered_map<size_t, size_t> taken;  // place, size
  size_t free_size = 0;

  std::optional<size_t> rounded(size_t size) const {
    size_t whole = 0;
    if (size == 0 || !checked_align_up(size, granule, whole))
      return std::nullopt;
    return whole;
  }
  void put_back(size_t offset, size_t size);
  void cut(gaps::index<by_place>::type::iterator from, size_t offset, size_t size);
};

// Joined with the gaps on both sides.
void ledger::books::put_back(size_t offset, size_t size) {
  free_size += size;
  auto &places = free.get<by_place>();
  auto after = places.lower_bound(offset);
  if (after != places.end() && after->offset == offset + size) {
    size += after->size;
    after = places.erase(after);
  }
  if (after != places.begin()) {
    auto const before = std::prev(after);
    if (before->offset + before->size == offset) {
      offset = before->offset;
      size += before->size;
      places.erase(before);
    }
  }
  free.insert({offset, size});
}

// What is left in front of the piece and behind it stays free.
void ledger::books::cut(gaps::index<by_place>::type::iterator from, size_t offset, size_t size) {
  gap const whole = *from;
  TND_ASSERT(whole.offset <= offset && offset + size <= whole.offset + whole.size);
  free.get<by_place>().erase(from);
  free_size -= size;
  if (offset != whole.offset)
    free.insert({whole.offset, offset - whole.offset});
  size_t const end = offset + size, whole_end = whole.offset + whole.size;
  if (end != whole_end)
    free.insert({end, whole_end - end});
}

ledger::ledger(size_t size, size_t granule) : books_{std::make_unique<books>()} {
  books_->granule = granule;
  size &= ~(granule - 1);
  if (size != 0)
    books_->put_back(0, size);
}

ledger::~ledger() = default;

std::optional<size_t> ledger::allocate(size_t size, size_t alignment) {
  auto const whole = books_->rounded(size);
  if (!whole)
    return std::nullopt;
  // A gap that is large enough may not be once its beginning is aligned.
  auto &sizes = books_->free.get<by_size>();
  for (auto fit = sizes.lower_bound(*whole); fit != sizes.end(); ++fit) {
    size_t offset = 0;
    if (!checked_align_up(fit->offset, alignment, offset))
      continue;
    if (offset - fit->offset > fit->size - *whole)
      continue;
    books_->cut(books_->free.project<by_place>(fit), offset, *whole);
    books_->taken.emplace(offset, *whole);
    return offset;
  }
  return std::nullopt;
}

bool ledger::release(size_t offset) {
  auto const found = books_->taken.find(offset);
  if (found == books_->taken.end())
    return false;
  books_->put_back(offset, found->second);
  books_->taken.erase(found);
  return true;
}

std::optional<size_t> ledger::size_of(size_t offset) const {
  auto const found = books_->taken.find(offset);
  if (found == books_->taken.end())
    return std::nullopt;
  return found->second;
}

bool ledger::resize(size_t offset, size_t size) {
  auto const whole = books_->rounded(size);
  auto const found = books_->taken.find(offset);
  if (!whole || found == books_->taken.end())
    return false;
  if (*whole < found->second) {
    books_->put_back(offset + *whole, found->second - *whole);
  } else if (*whole > found->second) {
    size_t const more = *whole - found->second, end = offset + found->second;
    auto const behind = books_->free.get<by_place>().find(end);
    if (behind == books_->free.get<by_place>().end() || behind->size < more)
      return false;
    books_->cut(behind, end, more);
  }
  found->second = *whole;
  return true;
}

size_t ledger::free_size() const noexcept {
  return books_->free_size;
}

}  // namespace tanada::port
