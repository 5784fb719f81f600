// tanada/device/detail/shmem/reduce_scatter_on_stream.hpp: reductions of which each member gets a
// part, in the order of a stream, by one block. Not for direct inclusion.
#pragma once

#include "calls/reduce_scatter.hpp"
#include "collect_on_stream.hpp"

namespace tanada::shmem::device {

template <reduction Op, class T>
static TND_KERNEL TND_LAUNCH_BOUNDS(copy_block_size) void reduce_scatter_kernel(shmem_team_t team,
                                                                                T *target,
                                                                                const T *source,
                                                                                u64 element_count) {
  (void)reduce_scatter<Op>(this_block{}, number_of(team), target, source, element_count);
}

template <reduction Op, class T>
inline int reduce_scatter_on_stream(
    shmem_team_t team, T *target, const T *source, u64 element_count, stream on) {
  launch_shape shape = shape_for(team, size_of_elements(target, element_count));
  shape.blocks = 1;
  return launch_collective(
      on, shape, reduce_scatter_kernel<Op, T>, team, target, source, element_count);
}

}  // namespace tanada::shmem::device
