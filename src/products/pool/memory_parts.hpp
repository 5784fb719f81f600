// products/pool/memory_parts.hpp: memory in several parts that a stream fills, or sends, from the
// front.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "core/base/assert.hpp"
#include "seams/stream/stream.hpp"

namespace tanada::pool {

// The parts that one send or receive uses. Parts that exceed the maximum count are left out.
class part_list {
 public:
  void add(void *addr, size_t size) noexcept {
    if (size == 0 || is_full())
      return;
    parts_[count_++] = {addr, size};
    size_ += size;
  }
  bool is_full() const noexcept {
    return count_ == parts_.size();
  }
  uint64_t size() const noexcept {
    return size_;
  }  // bytes
  std::span<const iovec> parts() const noexcept {
    return std::span{parts_}.first(count_);
  }

 private:
  std::array<iovec, 64> parts_;  // only the first count_ are initialized
  size_t count_ = 0;
  uint64_t size_ = 0;
};

// A position in memory, after the bytes that were filled or sent.
class part_cursor {
 public:
  part_cursor() = default;
  explicit part_cursor(std::vector<iovec> parts) : parts_{std::move(parts)} {
    (void)advance(0);
  }

  bool is_at_end() const noexcept {
    return index_ == parts_.size();
  }
  size_t part_count() const noexcept {
    return parts_.size();
  }
  uint64_t remaining_size() const noexcept {
    uint64_t size = 0;
    for (size_t i = index_; i < parts_.size(); i++)
      size += parts_[i].iov_len;
    return size;
  }

  // Adds the next bytes, at most `size_max`, to the list.
  void add_to(part_list &list, uint64_t size_max = UINT64_MAX) const noexcept {
    for (size_t i = index_; i < parts_.size() && size_max > 0 && !list.is_full(); i++) {
      uint64_t const size = std::min<uint64_t>(parts_[i].iov_len, size_max);
      list.add(parts_[i].iov_base, size);
      size_max -= size;
    }
  }

  // Moves by `size` bytes. Returns how many of them are past the end.
  uint64_t advance(uint64_t size) noexcept {
    while (!is_at_end() && (size > 0 || parts_[index_].iov_len == 0)) {
      iovec &part = parts_[index_];
      uint64_t const part_size = std::min<uint64_t>(size, part.iov_len);
      part.iov_base = static_cast<std::byte *>(part.iov_base) + part_size;
      part.iov_len -= part_size;
      size -= part_size;
      if (part.iov_len == 0)
        index_++;
    }
    return size;
  }

  // Copies bytes to the position, and moves it. Returns how many bytes the parts could take.
  size_t fill(std::span<const std::byte> bytes) noexcept {
    size_t filled_size = 0;
    while (filled_size < bytes.size() && !is_at_end()) {
      iovec const part = parts_[index_];
      size_t const size = std::min(part.iov_len, bytes.size() - filled_size);
      TND_ASSERT(size > 0);
      std::memcpy(part.iov_base, bytes.data() + filled_size, size);
      (void)advance(size);
      filled_size += size;
    }
    return filled_size;
  }

 private:
  std::vector<iovec> parts_;  // the start of the first remaining part advances
  size_t index_ = 0;          // of the first part that has bytes left
};

}  // namespace tanada::pool
