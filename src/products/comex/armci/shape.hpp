// products/comex/armci/shape.hpp: shapes of strided transfers, as programs give them.
#pragma once

#include <compat/comex/armci.h>

namespace tanada::comex::armci {

// A shape as programs give it. counts has one element more than the strides, of which there are
// level_count.
struct given_shape {
  const int *source_strides;
  const int *target_strides;
  const int *counts;
  int level_count;
};

// Whether a shape can be: at most ARMCI_MAX_STRIDE_LEVEL strides, no negative count. A refused one
// has been told of on stderr.
bool check_shape(const char *call, const given_shape &given) noexcept;

}  // namespace tanada::comex::armci
