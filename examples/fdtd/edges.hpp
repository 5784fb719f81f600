// fdtd/edges.hpp: the planes that go to a neighbour, by kernels: they put them, tell of it, and
// wait for the neighbour's.
#pragma once

#include "../common/halo.hpp"
#include "slabs.hpp"

namespace fdtd {

/// x and y of a field's plane: here, and the ghost plane at the neighbour, by the symmetric
/// address.
struct edge {
  float *there[2];
  const float *here[2];
  u64 count;  ///< floats of each
  int pe;
};

/// What neighbours' kernels tell one another by. Symmetric device memory, zeros at first.
struct mailbox {
  uint64_t arrived[2];  ///< by stepper::side: of how many steps the planes are here
};

/// Each block puts its part of both planes; the last to do so tells the neighbour. `done`: device
/// memory, 0 between kernels.
static TND_KERNEL void deliver(edge what, uint64_t *signal, u64 value, u32 *done) {
  tanada::this_block const all;
  u32 const blocks = tanada::simt::grid_size_x();
  u64 const each = (what.count + blocks - 1) / blocks, begin = tanada::simt::block_index_x() * each;
  u64 const count = begin >= what.count ? 0 : what.count - begin < each ? what.count - begin : each;
  for (u32 component = 0; component < 2; component++)
    shmemg_putmem_nbi_tg(what.there[component] + begin, what.here[component] + begin,
                         count * sizeof(float), what.pe);
  if (!examples::is_last_block(done, blocks) || all.rank() != 0)
    return;
  shmemg_fence();
  shmemg_uint64_atomic_set(signal, value, what.pe);
}

/// Kernels launched after it find the neighbour's planes here.
static TND_KERNEL void await_edge(uint64_t *arrived, u64 value) {
  shmemg_signal_wait_until(arrived, SHMEM_CMP_GE, value);
}

}  // namespace fdtd
