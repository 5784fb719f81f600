#include "comex/shape.hpp"

#include "base/log.hpp"

namespace tanada::comex {

result<strided_shape> strided_shape::of(std::span<const int> counts, const int *source_strides, const int *target_strides,
                                        int levels) {
  if (levels < 0 || levels > stride_level_max) {
    return fail(status::invalid, "%d levels of strides: there are 0 to %d", levels, stride_level_max);
  }
  if (counts[0] < 0) return fail(status::invalid, "blocks of %d bytes", counts[0]);
  strided_shape made{size_t(counts[0])};
  for (int i = 0; i < levels; i++) {
    auto const at = size_t(i);
    if (counts[at + 1] < 0 || source_strides[i] < 0 || target_strides[i] < 0) {
      return fail(status::invalid, "level %d: %d blocks, %d and %d bytes apart: none may be negative", i + 1, counts[at + 1],
                  source_strides[i], target_strides[i]);
    }
    auto const count = size_t(counts[at + 1]), source = size_t(source_strides[i]), target = size_t(target_strides[i]);
    if (count == 1) continue;
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
    made.counts_[top] = count, made.source_strides_[top] = source, made.target_strides_[top] = target;
    made.levels_++;
  }
  return made;
}

size_t strided_shape::block_count() const noexcept {
  size_t count = 1;
  for (int i = 0; i < levels_; i++) count *= counts_[size_t(i)];
  return count;
}

size_t strided_shape::extent(const numbers &strides) const noexcept {
  size_t end = block_size_;
  for (int i = 0; i < levels_; i++) end += (counts_[size_t(i)] - 1) * strides[size_t(i)];
  return end;
}

}  // namespace tanada::comex
