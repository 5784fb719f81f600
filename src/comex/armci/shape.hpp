// comex/armci/shape.hpp: strided transfers with as few dimensions as they need: pieces that touch at both ends become one.
#pragma once

#include <cstddef>

#include <compat/comex/armci.h>

namespace tanada::comex::armci {

struct folded_shape {
  int source_strides[ARMCI_MAX_STRIDE_LEVEL];  // bytes
  int target_strides[ARMCI_MAX_STRIDE_LEVEL];
  int counts[ARMCI_MAX_STRIDE_LEVEL + 1];      // [0]: bytes of a piece
  int level_count = 0;                         // 0: it is contiguous
  bool is_empty = false;
};

// A shape as programs give it. counts has one element more than the strides, of which there are level_count.
struct given_shape {
  const int *source_strides;
  const int *target_strides;
  const int *counts;
  int level_count;
};

// Whether a shape can be: at most ARMCI_MAX_STRIDE_LEVEL strides, no negative count. A refused one has been told of on stderr.
bool check_shape(const char *call, const given_shape &given) noexcept;

folded_shape fold(const given_shape &given) noexcept;

}  // namespace tanada::comex::armci
