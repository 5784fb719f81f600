// products/poold/log/block_buffer.hpp: memory of whole, aligned blocks, which devices can transfer
// without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "core/base/assert.hpp"

namespace tanada::pool {

inline constexpr uint64_t block_size =
    4096;  // bytes; records and their data start at multiples of it

static_assert((block_size & (block_size - 1)) == 0);

// Round up to whole blocks. `size` must be below 2^63.
constexpr uint64_t whole_blocks(uint64_t size) noexcept {
  return (size + block_size - 1) & ~(block_size - 1);
}

class block_buffer {
 public:
  block_buffer() = default;
  explicit block_buffer(uint64_t size) : size_{whole_blocks(size)} {
    if (size_ == 0)
      return;
    bytes_.reset(static_cast<std::byte *>(std::aligned_alloc(block_size, size_)));
    TND_ASSERT(bytes_ != nullptr);
    std::memset(bytes_.get(), 0, size_);
  }

  std::byte *data() const noexcept {
    return bytes_.get();
  }
  uint64_t size() const noexcept {
    return size_;
  }
  std::span<std::byte> span() const noexcept {
    return {bytes_.get(), size_};
  }

 private:
  struct deleter {
    void operator()(std::byte *bytes) const noexcept {
      std::free(bytes);
    }
  };
  std::unique_ptr<std::byte, deleter> bytes_;
  uint64_t size_ = 0;
};

}  // namespace tanada::pool
