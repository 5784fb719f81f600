// onesided/job/bounce_pool.hpp: bounce buffers that puts of medium size are sent from, so that the
// caller may reuse the source at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/assert.hpp"

namespace tanada::onesided {

// A fixed number of bounce buffers. Their memory is allocated when it is first needed. Not
// thread-safe.
class bounce_pool {
 public:
  static constexpr size_t buffer_size = size_t{16} << 10;  // bytes
  static constexpr uint32_t buffer_count = 64;
  static constexpr size_t size = buffer_size * buffer_count;
  static constexpr uint32_t no_buffer = ~uint32_t{0};

  // Returns `no_buffer` if all buffers are in use.
  uint32_t take() {
    if (memory_ == nullptr)
      fill();
    if (free_.empty())
      return no_buffer;
    uint32_t const index = free_.back();
    free_.pop_back();
    return index;
  }
  void release(uint32_t index) {
    TND_ASSERT(index < buffer_count && free_.size() < buffer_count);
    free_.push_back(index);
  }
  std::byte *buffer_at(uint32_t index) const noexcept {
    TND_ASSERT(index < buffer_count && memory_ != nullptr);
    return memory_.get() + index * buffer_size;
  }
  // Null until the first take().
  std::byte *memory() const noexcept {
    return memory_.get();
  }

 private:
  void fill() {
    TND_ASSERT(free_.empty());
    memory_ = std::make_unique_for_overwrite<std::byte[]>(buffer_count * buffer_size);
    for (uint32_t i = buffer_count; i > 0; i--)
      free_.push_back(i - 1);
  }

  std::unique_ptr<std::byte[]> memory_;
  std::vector<uint32_t> free_;
};

}  // namespace tanada::onesided
