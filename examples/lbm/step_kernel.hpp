// examples/lbm/step_kernel.hpp: the whole step in one kernel. Blocks of the two outer planes wait
// for the neighbours' populations, compute, store the leaving ones directly into the neighbours'
// memory, and signal. The other blocks compute the inner planes meanwhile.
//
// Why nothing is overwritten too early: a PE stores into the field that its neighbour read in the
// previous step. It does so only after the neighbour's signal for this step, which follows both
// outer planes of that step.
#pragma once

#include "../common/halo.hpp"
#include "lattice.hpp"

namespace lbm {

struct neighbours {
  int below, above;  // PEs of the ring
};

/// Symmetric device memory, initially zeros: the step of the field whose populations from below and
/// from above have arrived.
struct mailbox {
  uint64_t from_below, from_above;
};

/// All of the outer planes is written: here, or in the neighbour's memory where stores reach it.
TND_DEVICE inline void tell(
    const slab &s, u32 field, u64 target, u64 source, uint64_t *signal, u64 value, int pe) {
  double *const there = s.fields[field] + target;
  if (shmemg_ptr(there, pe) != nullptr) {
    shmemg_fence();
    shmemg_uint64_atomic_set(signal, value, pe);
  } else {
    shmemg_putmem_signal(there,
                         s.fields[field] + source,
                         s.crossing() * sizeof(double),
                         signal,
                         value,
                         SHMEM_SIGNAL_SET,
                         pe);
  }
}

/// Blocks below `outer_blocks` compute the outer planes. `arrived`: device memory, 0 between
/// kernels.
static TND_KERNEL void step_all(
    slab s, neighbours next, mailbox *mail, u32 *arrived, u32 step, u32 outer_blocks) {
  tanada::this_block const all;
  u32 const block = tanada::simt::block_index_x(), field = (step + 1) % 2, top = s.depth - 1;
  double *const to = s.fields[field];
  if (block >= outer_blocks) {
    step_planes(s,
                step,
                {1, top, block - outer_blocks, tanada::simt::grid_size_x() - outer_blocks},
                [&](u32 q, u32 x, u32 y, u32 z, double value) { to[s.at(q, x, y, z)] = value; });
    return;
  }
  if (all.rank() == 0) {
    shmemg_uint64_wait_until(&mail->from_below, SHMEM_CMP_GE, step);
    shmemg_uint64_wait_until(&mail->from_above, SHMEM_CMP_GE, step);
  }
  all.sync();
  auto *const above = static_cast<double *>(shmemg_ptr(to + s.going_up(-1), next.above));
  auto *const below = static_cast<double *>(shmemg_ptr(to + s.going_down(s.depth), next.below));
  auto const store = [&](u32 q, u32 x, u32 y, u32 z, double value) {
    to[s.at(q, x, y, z)] = value;
    u64 const place = (u64(q % crossing_count) * s.height + y) * s.width + x;
    if (z == top && q < crossing_count && above != nullptr)
      above[place] = value;
    if (z == 0 && q >= crossing_count && q < 2 * crossing_count && below != nullptr)
      below[place] = value;
  };
  step_planes(s, step, {0, 1, block, outer_blocks}, store);
  step_planes(s, step, {top, s.depth, block, outer_blocks}, store);
  if (!examples::is_last_block(arrived, outer_blocks))
    return;
  if (all.rank() == 0)
    tell(s, field, s.going_up(-1), s.going_up(top), &mail->from_below, u64(step) + 1, next.above);
  if (all.rank() == all.size() - 1)
    tell(s,
         field,
         s.going_down(s.depth),
         s.going_down(0),
         &mail->from_above,
         u64(step) + 1,
         next.below);
}

}  // namespace lbm
