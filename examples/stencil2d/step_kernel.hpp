// examples/stencil2d/step_kernel.hpp: the whole step in one kernel. Blocks of the boundary wait for
// the neighbours' edges, compute, store their own edges and signal. The other blocks compute the
// interior meanwhile.
//
// Why nothing is overwritten too early: a PE stores into the field that its neighbour read in the
// previous step. It does so only after the neighbour's signal for this step, which follows all of
// its boundary of that step.
#pragma once

#include "../common/halo.hpp"
#include "tile.hpp"

namespace stencil2d {

/// The signals between kernels of the PEs, in symmetric device memory, initially zeros.
struct mailbox {
  uint64_t arrived[direction_count];  // from the neighbour in that direction: the step of the field
                                      // whose edge has arrived
};

/// The position of this tile's value at (i, j) in each neighbour's surroundings, as mapped into
/// this process.
TND_DEVICE inline void deliver_cell(const tile &t, u32 step, u64 number, double value) {
  auto const c = t.shape.boundary_cell(number);
  double *const field = t.field(step + 1);
  for (u32 d = 0; d < direction_count; d++) {
    if (t.neighbour(d) < 0)
      continue;
    edge const mine = edge_of(t.shape, d);
    u64 const place = u64(c.i) * t.shape.columns + c.j;
    if (place < mine.offset || (place - mine.offset) % mine.stride != 0 ||
        (place - mine.offset) / mine.stride >= mine.count)
      continue;
    auto *const there = static_cast<double *>(
        shmemg_ptr(field + t.shape.ghosts(opposite(d)).offset, t.neighbour(d)));
    if (there != nullptr)
      there[(place - mine.offset) / mine.stride] = value;
  }
}

/// Run by the last block of the boundary: all edges are written, here, or in the neighbours' memory
/// where stores reach it. One thread for each direction.
TND_DEVICE inline void tell_neighbour(const tile &t, mailbox *mail, u32 step, u32 d) {
  int const pe = t.neighbour(d);
  if (pe < 0)
    return;
  uint64_t *const signal = &mail->arrived[opposite(d)];
  span const ghosts = t.shape.ghosts(opposite(d));
  double *const there = t.field(step + 1) + ghosts.offset;
  if (shmemg_ptr(there, pe) != nullptr) {
    shmemg_fence();
    shmemg_uint64_atomic_set(signal, u64(step) + 1, pe);
  } else {
    shmemg_putmem_signal(there,
                         outgoing(t, step + 1, d),
                         ghosts.count * sizeof(double),
                         signal,
                         u64(step) + 1,
                         SHMEM_SIGNAL_SET,
                         pe);
  }
}

/// Blocks below `boundary_blocks` compute the boundary. `done`: device memory, 0 between kernels.
static TND_KERNEL TND_LAUNCH_BOUNDS(256, 4) void step_all(
    tile t, mailbox *mail, u32 *done, u32 step, u32 boundary_blocks) {
  tanada::this_block const all;
  u32 const block = tanada::simt::block_index_x();
  if (block >= boundary_blocks) {
    pieces const interior(t.shape, tanada::simt::block_size_x());
    for (u32 number = block - boundary_blocks; number < interior.count();
         number += tanada::simt::grid_size_x() - boundary_blocks)
      step_piece(t, interior, step, number);
    return;
  }
  for (u32 d = all.rank(); d < direction_count; d += all.size())
    if (t.neighbour(d) >= 0)
      shmemg_uint64_wait_until(&mail->arrived[d], SHMEM_CMP_GE, step);
  all.sync();
  u64 const threads = u64(boundary_blocks) * all.size();
  for (u64 number = u64(block) * all.size() + all.rank(); number < t.shape.boundary_count();
       number += threads)
    deliver_cell(t, step, number, step_boundary_cell(t, step, number));
  if (!examples::is_last_block(done, boundary_blocks))
    return;
  for (u32 d = all.rank(); d < direction_count; d += all.size())
    tell_neighbour(t, mail, step, d);
}

}  // namespace stencil2d
