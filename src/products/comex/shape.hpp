// products/comex/shape.hpp: the shape of a strided transfer.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"

namespace tanada::comex {

inline constexpr int stride_level_max = 8;  // COMEX_MAX_STRIDE_LEVEL

// Equally spaced pieces of blocks, `size` bytes each.
struct block_run {
  size_t source = 0, target = 0, size = 0,
         count = 1;  // byte offset on each side, and the number of pieces
  size_t source_stride = 0, target_stride = 0;
};

// Blocks of `block_size` bytes in up to eight dimensions. Level i repeats the blocks, or the level
// below, counts[i] times. Its strides are source_strides[i] and target_strides[i] bytes.
class strided_shape {
 public:
  using numbers = std::array<size_t, stride_level_max>;

  // From the arguments of comex.h: counts[0] bytes, then counts of `levels` levels, with strides in
  // bytes. Adjacent levels without gaps on both sides are merged. invalid: too many levels, a
  // negative number, or more bytes than there are addresses.
  static result<strided_shape> from_arguments(std::span<const int> counts,
                                              const int *source_strides,
                                              const int *target_strides,
                                              int levels);

  // Both sides have equal strides; no count is 0. nullopt: more bytes than there are addresses.
  static std::optional<strided_shape> regular(size_t block_size,
                                              std::span<const size_t> counts,
                                              const numbers &strides);

  // One block.
  explicit strided_shape(size_t block_size)
      : block_size_{block_size}, source_extent_{block_size}, target_extent_{block_size} {}

  size_t block_size() const noexcept {
    return block_size_;
  }
  bool is_block() const noexcept {
    return levels_ == 0;
  }
  size_t block_count() const noexcept {
    return block_count_;
  }
  size_t size() const noexcept {
    return block_size_ * block_count();
  }  // bytes to move
  bool is_empty() const noexcept {
    return block_size_ == 0 || block_count_ == 0;
  }

  // Bytes from a side's first to past its last. Not for empty shapes.
  size_t source_extent() const noexcept {
    return source_extent_;
  }
  size_t target_extent() const noexcept {
    return target_extent_;
  }

  // Levels from the innermost outwards; only the first levels() elements are valid.
  size_t levels() const noexcept {
    return size_t(levels_);
  }
  const numbers &counts() const noexcept {
    return counts_;
  }
  const numbers &source_strides() const noexcept {
    return source_strides_;
  }
  const numbers &target_strides() const noexcept {
    return target_strides_;
  }

  // Calls each(block_run), in order, for `size` bytes of the packed data from `begin` on. The
  // packed data are the blocks, concatenated. begin + size is at most size(), and the shape is not
  // empty.
  template <class Each>
  void for_each_run(size_t begin, size_t size, Each &&visit) const {
    TND_ASSERT(!is_empty() && begin <= this->size() && size <= this->size() - begin);
    size_t const source_stride = levels_ == 0 ? 0 : source_strides_[0],
                 target_stride = levels_ == 0 ? 0 : target_strides_[0];
    size_t inside = begin % block_size_;
    block_position position = position_of(begin / block_size_);
    while (size > 0) {
      size_t const piece = std::min(size, block_size_ - inside),
                   remaining = levels_ == 0 ? 1 : counts_[0] - position.indices[0];
      size_t const count = piece == block_size_ ? std::min(remaining, size / piece) : 1;
      visit(block_run{position.source + inside,
                      position.target + inside,
                      piece,
                      count,
                      source_stride,
                      target_stride});
      size -= piece * count;
      inside = 0;
      if (size == 0)
        return;
      position.indices[0] += count;
      position.source += count * source_stride;
      position.target += count * target_stride;
      carry(position);
    }
  }

  // Calls each(source_offset, target_offset) for every block. The innermost level varies fastest.
  template <class Each>
  void for_each(Each &&visit) const {
    if (levels_ == 0)
      return visit(size_t{0}, size_t{0});
    std::array<size_t, stride_level_max> indices{};
    size_t source = 0, target = 0;
    for (;;) {
      // The innermost level has a loop of its own, because most of the time is spent there.
      for (size_t i = 0, s = source, t = target; i < counts_[0];
           i++, s += source_strides_[0], t += target_strides_[0])
        visit(s, t);
      int level = 1;
      for (; level < levels_; level++) {
        auto const l = size_t(level);
        source += source_strides_[l];
        target += target_strides_[l];
        if (++indices[l] < counts_[l])
          break;
        source -= source_strides_[l] * counts_[l];
        target -= target_strides_[l] * counts_[l];
        indices[l] = 0;
      }
      if (level >= levels_)
        return;
    }
  }

 private:
  // A block: its index on each level, and its byte offset on each side.
  struct block_position {
    numbers indices{};
    size_t source = 0, target = 0;
  };

  block_position position_of(size_t block) const noexcept {
    block_position position;
    for (size_t l = 0; l < levels(); l++) {
      position.indices[l] = block % counts_[l];
      position.source += position.indices[l] * source_strides_[l];
      position.target += position.indices[l] * target_strides_[l];
      block /= counts_[l];
    }
    return position;
  }
  // Where the index of a level has reached its count, continues at the next index of the level
  // above.
  void carry(block_position &position) const noexcept {
    for (size_t l = 0; l + 1 < levels() && position.indices[l] == counts_[l]; l++) {
      position.indices[l] = 0;
      position.indices[l + 1]++;
      position.source += source_strides_[l + 1] - source_strides_[l] * counts_[l];
      position.target += target_strides_[l + 1] - target_strides_[l] * counts_[l];
    }
  }

  // Adds a level outside of the others, or merges it with them.
  void append_level(size_t count, size_t source_stride, size_t target_stride) noexcept;
  bool measure();  // false: more bytes than there are addresses

  size_t block_size_ = 0, block_count_ = 1, source_extent_ = 0, target_extent_ = 0;
  int levels_ = 0;
  numbers counts_, source_strides_, target_strides_;  // only the first `levels_` elements are valid
};

// Copies the blocks of `source` to their positions in `target`.
void copy_blocks(std::byte *target, const std::byte *source, const strided_shape &shape);

}  // namespace tanada::comex
