// The allocator of the symmetric heap.
#include "products/shmem/heap.hpp"

#include <algorithm>
#include <bit>

#include "core/base/mutex.hpp"

namespace tanada::shmem {

void *symmetric_heap::allocate(size_t size, size_t alignment) {
  if (size == 0 || !std::has_single_bit(alignment) || alignment > alignment_max_)
    return nullptr;
  lock_guard const lock{mutex_};
  auto const offset = ledger_.allocate(size, std::max(alignment, granule));
  if (!offset)
    return nullptr;
  TND_ASSERT(*offset % alignment == 0 && *offset <= memory_.size() - size);
  return memory_.data() + *offset;
}

bool symmetric_heap::release(void *block) {
  lock_guard const lock{mutex_};
  return ledger_.release(offset_of(block));
}

std::optional<size_t> symmetric_heap::size_of(const void *block) {
  lock_guard const lock{mutex_};
  return ledger_.size_of(offset_of(block));
}

bool symmetric_heap::resize(void *block, size_t size) {
  lock_guard const lock{mutex_};
  return size != 0 && ledger_.resize(offset_of(block), size);
}

size_t symmetric_heap::free_size() {
  lock_guard const lock{mutex_};
  size_t const size = ledger_.free_size();
  TND_ASSERT(size <= memory_.size());
  return size;
}

}  // namespace tanada::shmem
