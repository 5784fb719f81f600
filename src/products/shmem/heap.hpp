// products/shmem/heap.hpp: the allocator of the symmetric heap.
#pragma once

#include <bit>
#include <cstddef>
#include <optional>
#include <span>

#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"
#include "seams/os/range_allocator.hpp"

namespace tanada::shmem {

// Equal calls in equal order give equal offsets in all PEs: the result depends on the heap's size,
// not on its address. The metadata are outside the heap, so that a program that writes past its
// block cannot corrupt them.
//
// Thread-safe.
class symmetric_heap {
 public:
  static constexpr size_t granule = 64;                  // bytes: no two blocks share a cache line
  static constexpr size_t large_page = size_t{2} << 20;  // bytes
  static_assert(std::has_single_bit(granule) && large_page % granule == 0);

  // The heaps of all PEs begin at a multiple of `alignment_max`, which is equal in all PEs.
  explicit symmetric_heap(std::span<std::byte> memory, size_t alignment_max = large_page)
      : memory_{memory}, alignment_max_{alignment_max}, ledger_{memory.size(), granule} {
    TND_ASSERT(std::has_single_bit(alignment_max));
    TND_ASSERT(reinterpret_cast<uintptr_t>(memory.data()) % alignment_max == 0);
  }

  // Returns null if `size` is 0, if `alignment` is not a power of two or exceeds alignment_max, or
  // if no free block is large enough.
  void *allocate(size_t size, size_t alignment = granule);

  // Returns false if `block` was not allocated here.
  bool release(void *block);

  // Returns the block's size in bytes; nullopt if it was not allocated here.
  std::optional<size_t> size_of(const void *block);

  // Grows or shrinks the block in place. Returns false, with the block unchanged, if that is
  // impossible.
  bool resize(void *block, size_t size);

  size_t free_size();  // total bytes; not contiguous

 private:
  size_t offset_of(const void *block) const noexcept {
    return reinterpret_cast<uintptr_t>(block) - reinterpret_cast<uintptr_t>(memory_.data());
  }

  std::span<std::byte> memory_;
  size_t alignment_max_;
  mutex mutex_;
  seams::range_allocator ledger_ TND_GUARDED_BY(mutex_);
};

}  // namespace tanada::shmem
