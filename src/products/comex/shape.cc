#include "products/comex/shape.hpp"

#include <cstring>

#include "core/base/checked.hpp"
#include "products/comex/refusal.hpp"

namespace tanada::comex {

result<strided_shape> strided_shape::of(std::span<const int> counts, const int *source_strides,
                                        const int *target_strides, int levels) {
  if (levels < 0 || levels > stride_level_max) {
    return refuse(status::invalid, "%d levels of strides: there are 0 to %d", levels,
                  stride_level_max);
  }
  if (counts[0] < 0)
    return refuse(status::invalid, "blocks of %d bytes", counts[0]);
  strided_shape made{size_t(counts[0])};
  for (int i = 0; i < levels; i++) {
    auto const at = size_t(i);
    if (counts[at + 1] == 1)
      continue;  // its strides lead nowhere
    if (counts[at + 1] < 0 || source_strides[i] < 0 || target_strides[i] < 0) {
      return refuse(status::invalid,
                    "level %d: %d blocks, %d and %d bytes apart: none may be negative", i + 1,
                    counts[at + 1], source_strides[i], target_strides[i]);
    }
    auto const count = size_t(counts[at + 1]), source = size_t(source_strides[i]),
               target = size_t(target_strides[i]);
    if (made.levels_ == 0 && source == made.block_size_ && target == made.block_size_) {
      made.block_size_ *= count;
      continue;
    }
    auto const top = size_t(made.levels_);
    if (made.levels_ > 0 && source == made.source_strides_[top - 1] * made.counts_[top - 1] &&
        target == made.target_strides_[top - 1] * made.counts_[top - 1]) {
      made.counts_[top - 1] *= count;
      continue;
    }
    made.counts_[top] = count;
    made.source_strides_[top] = source;
    made.target_strides_[top] = target;
    made.levels_++;
  }
  if (made.measure())
    return made;
  return refuse(status::invalid,
                "%d levels of blocks of %zu bytes are more than there are addresses", made.levels_,
                made.block_size_);
}

std::optional<strided_shape> strided_shape::regular(size_t block_size,
                                                    std::span<const size_t> counts,
                                                    const numbers &strides) {
  strided_shape made{block_size};
  made.levels_ = int(counts.size());
  std::copy(counts.begin(), counts.end(), made.counts_.begin());
  made.source_strides_ = strides;
  made.target_strides_ = strides;
  if (!made.measure())
    return std::nullopt;
  return made;
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

// Blocks of the sizes of numbers are moved without a call.
void copy_blocks(std::byte *target, const std::byte *source, const strided_shape &shape) {
  if (shape.is_block()) {
    std::memmove(target, source, shape.block_size());
    return;
  }
  auto const copy = [&](auto size) {
    shape.for_each([&](size_t s, size_t t) { std::memcpy(target + t, source + s, size); });
  };
  switch (shape.block_size()) {
    case 4: return copy(std::integral_constant<size_t, 4>{});
    case 8: return copy(std::integral_constant<size_t, 8>{});
    case 16: return copy(std::integral_constant<size_t, 16>{});
    default:
      return shape.for_each(
          [&](size_t s, size_t t) { std::memmove(target + t, source + s, shape.block_size()); });
  }
}

}  // namespace tanada::comex
