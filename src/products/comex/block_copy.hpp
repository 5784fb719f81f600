// products/comex/block_copy.hpp: gathers strided blocks into packed data, and scatters them. Blocks
// of 4, 8 and 16 bytes are copied without a call.
#pragma once

#include <cstring>
#include <type_traits>

#include "products/comex/shape.hpp"

namespace tanada::comex {

template <class Copy>
void with_constant_size(size_t size, Copy &&copy) {
  switch (size) {
    case 4:
      return copy(std::integral_constant<size_t, 4>{});
    case 8:
      return copy(std::integral_constant<size_t, 8>{});
    case 16:
      return copy(std::integral_constant<size_t, 16>{});
    default:
      return copy(size);
  }
}

// `blocks` is the first block of the run. Both return the position in the packed data after the
// run.
inline std::byte *gather_run(std::byte *packed,
                             const std::byte *blocks,
                             size_t stride,
                             const block_run &run) {
  with_constant_size(run.size, [&](auto size) {
    for (size_t i = 0; i < run.count; i++) {
      std::memcpy(packed + i * size, blocks + i * stride, size);
    }
  });
  return packed + run.size * run.count;
}
inline const std::byte *scatter_run(std::byte *blocks,
                                    size_t stride,
                                    const std::byte *packed,
                                    const block_run &run) {
  with_constant_size(run.size, [&](auto size) {
    for (size_t i = 0; i < run.count; i++) {
      std::memcpy(blocks + i * stride, packed + i * size, size);
    }
  });
  return packed + run.size * run.count;
}

}  // namespace tanada::comex
