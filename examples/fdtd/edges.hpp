// examples/fdtd/edges.hpp: exchanges edge planes with a neighbour by kernels, which put them,
// signal, and wait for the neighbour's planes.
#pragma once

#include "../common/halo.hpp"
#include "slabs.hpp"

namespace fdtd {

/// The x and y components of a field's plane: here, and in the neighbour's ghost plane, by the
/// symmetric address.
struct edge {
  float *there[2];
  const float *here[2];
  u64 count;  ///< floats of each component
  int pe;
};

/// The signals between neighbours' kernels, in symmetric device memory, initially zeros.
struct mailbox {
  uint64_t arrived[2];  ///< by stepper::side: the number of steps whose planes have arrived
};

/// Each block puts its part of both planes, and the last block signals the neighbour. `done`:
/// device memory, 0 between kernels.
static TND_KERNEL void deliver(edge what, uint64_t *signal, u64 value, u32 *done) {
  tanada::this_block const all;
  u32 const blocks = tanada::simt::grid_size_x();
  u64 const each = (what.count + blocks - 1) / blocks, begin = tanada::simt::block_index_x() * each;
  u64 const count = begin >= what.count ? 0 : what.count - begin < each ? what.count - begin : each;
  for (u32 component = 0; component < 2; component++)
    shmemg_putmem_nbi_tg(what.there[component] + begin,
                         what.here[component] + begin,
                         count * sizeof(float),
                         what.pe);
  if (!examples::is_last_block(done, blocks) || all.rank() != 0)
    return;
  shmemg_fence();
  shmemg_uint64_atomic_set(signal, value, what.pe);
}

/// Kernels launched after it find the neighbour's planes in the ghost planes.
static TND_KERNEL void await_edge(uint64_t *arrived, u64 value) {
  shmemg_signal_wait_until(arrived, SHMEM_CMP_GE, value);
}

}  // namespace fdtd
