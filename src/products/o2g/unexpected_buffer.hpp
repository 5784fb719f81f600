// products/o2g/unexpected_buffer.hpp: memory for unexpected messages.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include "core/base/assert.hpp"

namespace tanada::o2g {

// Allocates the blocks. Mapping and unmapping the pages of a large block costs as much as copying
// its bytes, so large blocks are cached: at most cached_size_max bytes in cached_count_max blocks.
// A message may get a block of twice its size.
class unexpected_buffer {
 public:
  static constexpr uint64_t large_size_min = 64 << 10, cached_size_max = 64 << 20;
  static constexpr size_t cached_count_max = 128;

  unexpected_buffer() {
    cached_.reserve(cached_count_max);
  }
  ~unexpected_buffer() {
    for (block *const cached : cached_)
      std::free(cached);
  }
  unexpected_buffer(const unexpected_buffer &) = delete;
  unexpected_buffer &operator=(const unexpected_buffer &) = delete;

  // Returns null if there is no memory.
  void *allocate(uint64_t size) noexcept {
    if (size < large_size_min)
      return std::malloc(size);
    // Rounded up, so that a block fits messages of similar sizes.
    uint64_t const step = std::bit_floor(size) / 8,
                   rounded = (size + sizeof(block) + step - 1) / step * step;
    auto best = cached_.end();
    for (auto it = cached_.begin(); it != cached_.end(); ++it) {
      bool const fits = (*it)->size >= rounded && (*it)->size / 2 <= rounded;
      if (fits && (best == cached_.end() || (*it)->size < (*best)->size))
        best = it;
    }
    if (best != cached_.end()) {
      block *const reused = *best;
      TND_ASSERT(cached_size_ >= reused->size);
      cached_size_ -= reused->size;
      *best = cached_.back();
      cached_.pop_back();
      return reused + 1;
    }
    void *const memory = std::malloc(rounded);
    return memory == nullptr ? nullptr : new (memory) block{rounded} + 1;
  }

  // Frees or caches a block that allocate(size) returned.
  void release(void *memory, uint64_t size) noexcept {
    if (size < large_size_min)
      return std::free(memory);
    block *const released = static_cast<block *>(memory) - 1;
    TND_ASSERT(released->size >= size + sizeof(block));
    if (cached_.size() == cached_count_max || cached_size_ + released->size > cached_size_max)
      return std::free(released);
    cached_size_ += released->size;
    cached_.push_back(released);
  }

  uint64_t cached_size() const noexcept {
    return cached_size_;
  }

 private:
  struct alignas(std::max_align_t) block {
    uint64_t size;  // bytes, including this header
  };
  std::vector<block *> cached_;
  uint64_t cached_size_ = 0;
};

}  // namespace tanada::o2g
