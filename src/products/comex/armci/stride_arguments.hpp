// products/comex/armci/stride_arguments.hpp: the arguments of strided transfers.
#pragma once

#include <compat/comex/armci.h>

namespace tanada::comex::armci {

// A shape as programs pass it. There are `level_count` strides, and one more count.
struct stride_arguments {
  const int *source_strides;
  const int *target_strides;
  const int *counts;
  int level_count;
};

// True: the shape has at most ARMCI_MAX_STRIDE_LEVEL strides and no negative count. False: it is
// invalid, and an error was printed to stderr.
bool check_shape(const char *call, const stride_arguments &arguments) noexcept;

}  // namespace tanada::comex::armci
