// products/shmem/heap.hpp: pieces of the symmetric heap.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"
#include "seams/os/ledger.hpp"

namespace tanada::shmem {

// The same calls in the same order give the same places in all PEs: nothing depends on where the
// heap lies, only its size counts. What keeps the books lies outside: a program that writes past
// its piece cannot break them.
//
// Thread-safe.
class symmetric_heap {
 public:
  static constexpr size_t granule = 64;                  // bytes: no two pieces share a cache line
  static constexpr size_t large_page = size_t{2} << 20;  // bytes

  // The heaps of all PEs begin at a multiple of `alignment_max`, which is the same in all.
  explicit symmetric_heap(std::span<std::byte> memory, size_t alignment_max = large_page)
      : memory_{memory}, alignment_max_{alignment_max}, books_{memory.size(), granule} {
    TND_ASSERT(reinterpret_cast<uintptr_t>(memory.data()) % alignment_max == 0);
  }

  // Null for no bytes, for an alignment that is no power of two or more than alignment_max, and if
  // there is no such piece.
  void *allocate(size_t size, size_t alignment = granule);

  // False: it is no piece of ours.
  bool release(void *piece);

  // Bytes that the piece has; none if it is no piece of ours.
  std::optional<size_t> size_of(const void *piece);

  // Larger or smaller where it is. False: it is as it was.
  bool resize(void *piece, size_t size);

  size_t free_size();  // bytes; not in one piece

 private:
  size_t offset_of(const void *piece) const noexcept {
    return reinterpret_cast<uintptr_t>(piece) - reinterpret_cast<uintptr_t>(memory_.data());
  }

  std::span<std::byte> memory_;
  size_t alignment_max_;
  mutex mutex_;
  port::ledger books_;
};

}  // namespace tanada::shmem
