// shape.cc: checks strided shapes, and copies their blocks.
#include "products/comex/shape.hpp"

#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/checked.hpp"
#include "products/comex/deferred_error.hpp"

namespace tanada::comex {

void strided_shape::append_level(size_t count,
                                 size_t source_stride,
                                 size_t target_stride) noexcept {
  if (levels_ == 0 && source_stride == block_size_ && target_stride == block_size_) {
    block_size_ *= count;
    return;
  }
  auto const top = size_t(levels_);
  if (levels_ > 0 && source_stride == source_strides_[top - 1] * counts_[top - 1] &&
      target_stride == target_strides_[top - 1] * counts_[top - 1]) {
    counts_[top - 1] *= count;
    return;
  }
  TND_ASSERT(levels_ < stride_level_max);
  counts_[top] = count;
  source_strides_[top] = source_stride;
  target_strides_[top] = target_stride;
  levels_++;
}

result<strided_shape> strided_shape::from_arguments(std::span<const int> counts,
                                                    const int *source_strides,
                                                    const int *target_strides,
                                                    int levels) {
  if (levels < 0 || levels > stride_level_max) {
    return set_error(
        status::invalid, "{} stride levels: valid are 0 to {}", levels, stride_level_max);
  }
  if (counts[0] < 0)
    return set_error(status::invalid, "the block size is negative: {} bytes", counts[0]);
  strided_shape shape{size_t(counts[0])};
  for (int i = 0; i < levels; i++) {
    auto const index = size_t(i);
    if (counts[index + 1] == 1)
      continue;  // the strides of a single piece are irrelevant
    if (counts[index + 1] < 0 || source_strides[i] < 0 || target_strides[i] < 0) {
      return set_error(
          status::invalid,
          "level {}: the count is {}, the strides are {} and {}: negative numbers are invalid",
          i + 1,
          counts[index + 1],
          source_strides[i],
          target_strides[i]);
    }
    shape.append_level(
        size_t(counts[index + 1]), size_t(source_strides[i]), size_t(target_strides[i]));
  }
  if (shape.measure())
    return shape;
  return set_error(status::invalid,
                   "{} stride levels of blocks of {} bytes exceed the address space",
                   shape.levels_,
                   shape.block_size_);
}

std::optional<strided_shape> strided_shape::regular(size_t block_size,
                                                    std::span<const size_t> counts,
                                                    const numbers &strides) {
  TND_ASSERT(counts.size() <= size_t{stride_level_max});
  strided_shape shape{block_size};
  shape.levels_ = int(counts.size());
  std::copy(counts.begin(), counts.end(), shape.counts_.begin());
  shape.source_strides_ = strides;
  shape.target_strides_ = strides;
  if (!shape.measure())
    return std::nullopt;
  return shape;
}

bool strided_shape::measure() {
  source_extent_ = block_size_;
  target_extent_ = block_size_;
  bool fits = true;
  for (size_t i = 0; i < size_t(levels_); i++) {
    fits = fits && checked_multiply(block_count_, counts_[i], block_count_);
    if (counts_[i] == 0)
      continue;
    size_t source = 0, target = 0;
    fits = fits && checked_multiply(counts_[i] - 1, source_strides_[i], source) &&
           checked_add(source_extent_, source, source_extent_);
    fits = fits && checked_multiply(counts_[i] - 1, target_strides_[i], target) &&
           checked_add(target_extent_, target, target_extent_);
  }
  size_t size = 0;
  fits = fits && checked_multiply(block_count_, block_size_, size);
  return fits;
}

// Blocks of 4, 8 and 16 bytes are copied without a call.
void copy_blocks(std::byte *target, const std::byte *source, const strided_shape &shape) {
  if (shape.is_block()) {
    std::memmove(target, source, shape.block_size());
    return;
  }
  auto const copy = [&](auto size) {
    shape.for_each([&](size_t s, size_t t) { std::memcpy(target + t, source + s, size); });
  };
  switch (shape.block_size()) {
    case 4:
      return copy(std::integral_constant<size_t, 4>{});
    case 8:
      return copy(std::integral_constant<size_t, 8>{});
    case 16:
      return copy(std::integral_constant<size_t, 16>{});
    default:
      return shape.for_each(
          [&](size_t s, size_t t) { std::memmove(target + t, source + s, shape.block_size()); });
  }
}

}  // namespace tanada::comex
