// products/comex/heap/allocator.cc: allocation in a heap, with pages returned to the system.
#include "products/comex/heap/allocator.hpp"

#include <sys/mman.h>

#include <cstring>

#include "seams/os/shared_memory.hpp"

namespace tanada::comex::heap {
namespace {

constexpr size_t large = size_t{1}  // bytes: from this size on, pages are returned to the system
                                    // when a piece is released
                         << 20;
// the same if there is a memory account, since pages that are not returned are swapped
constexpr size_t large_accounted = size_t{128} << 10;
static_assert(large_accounted <= large && large_accounted % allocator::granule == 0);

}  // namespace

void *allocator::allocate(size_t size, size_t alignment) {
  if (size == 0 || size > memory_.size())
    return nullptr;
  size_t const whole = (size + granule - 1) / granule * granule;
  memory_account *const account = account_;
  if (account != nullptr && !account->reserve_memory(whole))
    return nullptr;
  unique_lock lock{mutex_};
  if (auto const offset = ledger_.allocate(size, alignment))
    return memory_.data() + *offset;
  lock.unlock();
  if (account != nullptr)
    account->return_memory(whole);
  return nullptr;
}

void allocator::clear(void *piece, size_t size) {
  size_t const page = seams::page_size(), offset = offset_of(piece);
  TND_ASSERT(offset <= memory_.size() && size <= memory_.size() - offset);
  size_t const first = (offset + page - 1) / page * page, last = (offset + size) / page * page;
  auto *const begin = static_cast<std::byte *>(piece);
  if (first >= last || !discard_pages(first, last - first)) {
    std::memset(begin, 0, size);
    return;
  }
  std::memset(begin, 0, first - offset);
  std::memset(memory_.data() + last, 0, offset + size - last);
}

// Returns pages to the system. False: the system cannot do it.
bool allocator::discard_pages(size_t offset, size_t size) noexcept {
  TND_ASSERT(offset <= memory_.size() && size <= memory_.size() - offset);
  memory_account *const account = account_;
  if (account != nullptr)
    account->before_discard(offset, size);
  if (madvise(memory_.data() + offset, size, MADV_REMOVE) != 0)
    return false;
  if (account != nullptr)
    account->pages_discarded(offset, size);
  return true;
}

bool allocator::release(void *piece) {
  size_t const offset = offset_of(piece);
  if (offset >= memory_.size())
    return false;
  if (memory_account *const account = account_; account != nullptr)
    account->before_release();
  unique_lock lock{mutex_};
  auto const size = ledger_.size_of(offset);
  if (!size)
    return false;
  if (*size >= (account_ != nullptr ? large_accounted : large)) {
    size_t const page = seams::page_size(), first = (offset + page - 1) / page * page,
                 last = (offset + *size) / page * page;
    if (last > first)
      (void)discard_pages(first, last - first);
  }
  bool const is_released = ledger_.release(offset);
  TND_ASSERT(is_released);
  lock.unlock();
  if (memory_account *const account = account_; account != nullptr)
    account->return_memory(*size);
  return true;
}

bool allocator::resize(void *piece, size_t size) {
  size_t const offset = offset_of(piece);
  if (offset >= memory_.size())
    return false;
  size_t const before = size_of(piece), after = (size + granule - 1) / granule * granule;
  if (before == 0 || size == 0 || size > memory_.size())
    return false;
  memory_account *const account = account_;
  if (account != nullptr && after > before && !account->reserve_memory(after - before))
    return false;
  unique_lock lock{mutex_};
  bool const is_done = ledger_.resize(offset, size);
  lock.unlock();
  if (account != nullptr && is_done && before > after)
    account->return_memory(before - after);
  if (account != nullptr && !is_done && after > before)
    account->return_memory(after - before);
  return is_done;
}

size_t allocator::size_of(const void *piece) const {
  size_t const offset = offset_of(piece);
  if (offset >= memory_.size())
    return 0;
  lock_guard const lock{mutex_};
  return ledger_.size_of(offset).value_or(0);
}

size_t allocator::free_size() const {
  lock_guard const lock{mutex_};
  return ledger_.free_size();
}

}  // namespace tanada::comex::heap
