// products/comex/shape.hpp: the blocks of a strided transfer.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/base/result.hpp"

namespace tanada::comex {

inline constexpr int stride_level_max = 8;  // COMEX_MAX_STRIDE_LEVEL

// Pieces of blocks that are so far apart, `size` bytes each.
struct block_run {
  size_t source = 0, target = 0, size = 0,
         count = 1;  // bytes from where each side begins; `count` pieces
  size_t source_stride = 0, target_stride = 0;
};

// Blocks of `block_size` bytes in up to eight dimensions: counts[i] of them, or of the shapes
// below, that are source_strides[i] and target_strides[i] bytes apart.
class strided_shape {
 public:
  using numbers = std::array<size_t, stride_level_max>;

  // As comex.h has it: counts[0] bytes, then counts of `levels` levels, whose strides are bytes.
  // Neighbouring levels that lie without gaps on both sides are joined. invalid: more levels than
  // there are, a negative number of anything, or more bytes than addresses.
  static result<strided_shape> of(std::span<const int> counts, const int *source_strides,
                                  const int *target_strides, int levels);

  // Both sides alike, with counts that are not 0. Nothing: more bytes than there are addresses.
  static std::optional<strided_shape> regular(size_t block_size, std::span<const size_t> counts,
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
  }  // bytes that move
  bool is_empty() const noexcept {
    return block_size_ == 0 || block_count_ == 0;
  }

  // Bytes from the first of a side's to behind the last. Of a shape that is not empty.
  size_t source_extent() const noexcept {
    return source_extent_;
  }
  size_t target_extent() const noexcept {
    return target_extent_;
  }

  // From the lowest; of those that there are.
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

  // each(block_run), in order, of what packed data have from byte `begin` on: those are the blocks
  // one behind the other. begin + size is at most size(), and the shape is not empty.
  template <class Each>
  void for_each_run(size_t begin, size_t size, Each &&each) const {
    numbers at{};
    size_t const source_stride = levels_ == 0 ? 0 : source_strides_[0],
                 target_stride = levels_ == 0 ? 0 : target_strides_[0];
    size_t source = 0, target = 0, inside = begin % block_size_;
    for (size_t l = 0, block = begin / block_size_; l < levels(); block /= counts_[l++]) {
      at[l] = block % counts_[l];
      source += at[l] * source_strides_[l];
      target += at[l] * target_strides_[l];
    }
    while (size > 0) {
      size_t const piece = std::min(size, block_size_ - inside),
                   left = levels_ == 0 ? 1 : counts_[0] - at[0];
      size_t const count = piece == block_size_ ? std::min(left, size / piece) : 1;
      each(block_run{source + inside, target + inside, piece, count, source_stride, target_stride});
      size -= piece * count;
      inside = 0;
      if (size == 0)
        return;
      at[0] += count;
      source += count * source_stride;
      target += count * target_stride;
      for (size_t l = 0; l + 1 < levels() && at[l] == counts_[l]; l++) {
        at[l] = 0;
        at[l + 1]++;
        source += source_strides_[l + 1] - source_strides_[l] * counts_[l];
        target += target_strides_[l + 1] - target_strides_[l] * counts_[l];
      }
    }
  }

  // each(source_offset, target_offset) of every block, in the order of addresses' last level first.
  template <class Each>
  void for_each(Each &&each) const {
    if (levels_ == 0)
      return each(size_t{0}, size_t{0});
    std::array<size_t, stride_level_max> at{};
    size_t source = 0, target = 0;
    for (;;) {
      // The lowest level is a loop of its own: it is where the time goes.
      for (size_t i = 0, s = source, t = target; i < counts_[0];
           i++, s += source_strides_[0], t += target_strides_[0])
        each(s, t);
      int level = 1;
      for (; level < levels_; level++) {
        auto const l = size_t(level);
        source += source_strides_[l];
        target += target_strides_[l];
        if (++at[l] < counts_[l])
          break;
        source -= source_strides_[l] * counts_[l];
        target -= target_strides_[l] * counts_[l];
        at[l] = 0;
      }
      if (level >= levels_)
        return;
    }
  }

 private:
  bool measure();  // false: it has more bytes than there are addresses

  size_t block_size_ = 0, block_count_ = 1, source_extent_ = 0, target_extent_ = 0;
  int levels_ = 0;
  numbers counts_, source_strides_, target_strides_;  // of the levels that there are
};

// The blocks of source to their places in target.
void copy_blocks(std::byte *target, const std::byte *source, const strided_shape &shape);

}  // namespace tanada::comex
