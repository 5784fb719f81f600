// comex/shape.hpp: the blocks of a strided transfer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"

namespace tanada::comex {

inline constexpr int stride_level_max = 8;  // COMEX_MAX_STRIDE_LEVEL

// Blocks of `block_size` bytes in up to eight dimensions: counts[i] of them, or of the shapes below, that are source_strides[i] and
// target_strides[i] bytes apart.
class strided_shape {
 public:
  // As comex.h has it: counts[0] bytes, then counts of `levels` levels, whose strides are bytes. Neighbouring levels that lie without
  // gaps on both sides are joined. invalid: more levels than there are, a negative number of anything, or more bytes than addresses.
  static result<strided_shape> of(std::span<const int> counts, const int *source_strides, const int *target_strides, int levels);

  // One block.
  explicit strided_shape(size_t block_size) : block_size_{block_size}, source_extent_{block_size}, target_extent_{block_size} {}

  size_t block_size() const noexcept { return block_size_; }
  bool is_block() const noexcept { return levels_ == 0; }
  size_t block_count() const noexcept { return block_count_; }
  size_t size() const noexcept { return block_size_ * block_count(); }  // bytes that move
  bool is_empty() const noexcept { return block_size_ == 0 || block_count_ == 0; }

  // Bytes from the first of a side's to behind the last. Of a shape that is not empty.
  size_t source_extent() const noexcept { return source_extent_; }
  size_t target_extent() const noexcept { return target_extent_; }

  // each(source_offset, target_offset) of every block, in the order of addresses' last level first.
  template <class Each>
  void for_each(Each &&each) const {
    if (levels_ == 0) return each(size_t{0}, size_t{0});
    std::array<size_t, stride_level_max> at{};
    size_t source = 0, target = 0;
    for (;;) {
      // The lowest level is a loop of its own: it is where the time goes.
      for (size_t i = 0, s = source, t = target; i < counts_[0]; i++, s += source_strides_[0], t += target_strides_[0]) each(s, t);
      int level = 1;
      for (; level < levels_; level++) {
        auto const l = size_t(level);
        source += source_strides_[l], target += target_strides_[l];
        if (++at[l] < counts_[l]) break;
        source -= source_strides_[l] * counts_[l], target -= target_strides_[l] * counts_[l];
        at[l] = 0;
      }
      if (level >= levels_) return;
    }
  }

 private:
  using numbers = std::array<size_t, stride_level_max>;

  status measure();

  size_t block_size_ = 0, block_count_ = 1, source_extent_ = 0, target_extent_ = 0;
  int levels_ = 0;
  numbers counts_, source_strides_, target_strides_;  // of the levels that there are
};

}  // namespace tanada::comex
