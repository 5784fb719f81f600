// products/o2g/scatter.hpp: a cursor over memory in several parts, which are filled from the front.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/assert.hpp"
#include "seams/os/racy_copy.hpp"

namespace tanada::o2g {

inline constexpr size_t part_count_max = 16;  // parts of one request

inline uint64_t size_of(std::span<const iovec> parts) noexcept {
  uint64_t size = 0;
  for (iovec const &part : parts)
    size += part.iov_len;
  return size;
}

class scatter {
 public:
  scatter() noexcept {}
  explicit scatter(std::span<const iovec> parts)
      : count_{uint32_t(parts.size())}, remaining_size_{size_of(parts)} {
    TND_ASSERT(parts.size() <= parts_.size());
    std::ranges::copy(parts, parts_.begin());
  }
  scatter(std::byte *addr, uint64_t size) : count_{1}, remaining_size_{size} {
    parts_[0] = {addr, size};
  }
  // Copies only the parts in use: most objects have at most one.
  scatter(const scatter &source) noexcept {
    *this = source;
  }
  scatter &operator=(const scatter &source) noexcept {
    std::copy_n(source.parts_.begin(), source.count_, parts_.begin());
    count_ = source.count_;
    index_ = source.index_;
    remaining_size_ = source.remaining_size_;
    return *this;
  }
  ~scatter() = default;

  uint64_t remaining_size() const noexcept {
    return remaining_size_;
  }  // bytes

  // The rest of the first part that is not full; empty when all parts are full.
  std::span<std::byte> front() noexcept {
    while (index_ < count_ && parts_[index_].iov_len == 0)
      index_++;
    if (index_ == count_)
      return {};
    return {static_cast<std::byte *>(parts_[index_].iov_base), parts_[index_].iov_len};
  }

  // Marks the first `size` bytes of front() as filled.
  void advance(size_t size) noexcept {
    TND_ASSERT(index_ < count_ && size <= parts_[index_].iov_len);
    parts_[index_].iov_base = static_cast<std::byte *>(parts_[index_].iov_base) + size;
    parts_[index_].iov_len -= size;
    remaining_size_ -= size;
  }

  // Copies bytes to the front; returns how many fit.
  size_t put(std::span<const std::byte> bytes) noexcept {
    size_t copied = 0;
    while (copied < bytes.size()) {
      auto const target = front();
      if (target.empty())
        break;
      size_t const size = std::min(target.size(), bytes.size() - copied);
      // Programs may poll memory that a remote write changes.
      seams::racy_copy(target.data(), bytes.data() + copied, size);
      advance(size);
      copied += size;
    }
    return copied;
  }

 private:
  uint32_t count_ = 0, index_ = 0;
  uint64_t remaining_size_ = 0;
  std::array<iovec, part_count_max> parts_;  // only the first count_ are initialized
};

}  // namespace tanada::o2g
