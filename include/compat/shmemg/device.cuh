// shmemg/device.cuh: what kernels call. C++17, under nvcc and for the host executor.
//
// Each call comes as the draft names it, and as a template that takes the calling group; the names
// are made of the templates.
//
//   shmemg_putmem(target, source, size, pe)                           one thread
//   shmemg_putmem_htg(...), shmemg_putmem_tg(...)                     all threads of a warp, of a
//   block tanada::shmemg::put(group, target, source, size, pe)              this_thread, this_warp
//   or this_block
//
// shmemgx_ names are not of the draft. What holds for every call:
//   Group:      all threads of the group call, with equal arguments, in converged flow; results are
//   equal in all of them. What its
//               threads stored before the call is part of what is put. Block calls use some bytes
//               of shared memory.
//   Target:     symmetric addresses are those of this PE's device heap (shmemg_malloc). What is
//   local may be any memory that the
//               kernel reaches. Where the PE is not reached (shmemg_ptr() is null), more than 1024
//               bytes of a stack or of shared memory take a request for each 1024.
//   Visibility: what is put, set or updated is there when a quiet has returned; a fence orders it
//   before what comes after. Waits and
//               tests that see a value see what its writer did before its fence, put_signal or
//               sync.
//   Types:      as of the host's calls; long double is a double to GPUs, so that it means the same
//   on the host executor alone. Waiting:    until a PE is known to be lost, or
//   TND_SHMEM_DEVICE_TIMEOUT is over (as a rule no limit). Then the call returns. Errors: nothing
//   happens, and the first fault of the PE's kernels is kept: the host's next call that waits ends
//   the job with
//               a message that names the device call, block and thread. Calls that return int give
//               nonzero, those with a status tell which: invalid (no such PE, context, team), range
//               (not of the device heap), fault (not aligned), peer_lost, timed_out, not_supported
//               (the PE is not reached by any way).
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "../shmem/types.h"
#include "handles.h"

#include <tanada/device/detail/shmem/calls/all.hpp>

#define SHMEMG_DEVICE TND_DEVICE

namespace tanada::shmemg {

namespace bodies = ::tanada::shmem::device;

/// A context as a number: SHMEM_DEVICE_CTX_DEFAULT, or what shmem_ctx_create(SHMEM_DEVICE_CTX)
/// gave.
TND_DEVICE inline u64 number_of(shmem_ctx_t context) {
  return u64(reinterpret_cast<uintptr_t>(context));
}
TND_DEVICE inline u64 number_of(shmem_team_t team) {
  return u64(reinterpret_cast<uintptr_t>(team));
}
inline constexpr u64 default_context = bodies::context_first;
inline constexpr u64 world_team = bodies::team_first;

/// Copy `size` bytes from `source` to `target` at `pe`. On return the source is the group's again;
/// put_nbi: after a quiet.
template <class Group>
TND_DEVICE inline status put(Group group, void *target, const void *source, size_t size, int pe,
                             u64 context = default_context) {
  return bodies::put<bodies::ends::at_once>(group, context, target, source, size, pe);
}
template <class Group>
TND_DEVICE inline status put_nbi(Group group, void *target, const void *source, size_t size, int pe,
                                 u64 context = default_context) {
  return bodies::put<bodies::ends::later>(group, context, target, source, size, pe);
}

/// Copy `size` bytes from `source` at `pe` to `target`. The bytes are there on return; get_nbi:
/// after a quiet.
template <class Group>
TND_DEVICE inline status get(Group group, void *target, const void *source, size_t size, int pe,
                             u64 context = default_context) {
  return bodies::get<bodies::ends::at_once>(group, context, target, source, size, pe);
}
template <class Group>
TND_DEVICE inline status get_nbi(Group group, void *target, const void *source, size_t size, int pe,
                                 u64 context = default_context) {
  return bodies::get<bodies::ends::later>(group, context, target, source, size, pe);
}

/// `count` elements, of which the next lies so many elements on, at either side. Complete as put
/// and get are.
template <class Group, class T>
TND_DEVICE inline status iput(Group group, T *target, const T *source, ptrdiff_t target_stride,
                              ptrdiff_t source_stride, size_t count, int pe,
                              u64 context = default_context) {
  return bodies::put_rows(group, context, target, source, {target_stride, source_stride}, count,
                          pe);
}
template <class Group, class T>
TND_DEVICE inline status iget(Group group, T *target, const T *source, ptrdiff_t target_stride,
                              ptrdiff_t source_stride, size_t count, int pe,
                              u64 context = default_context) {
  return bodies::get_rows(group, context, target, source, {target_stride, source_stride}, count,
                          pe);
}

/// put, and when the bytes are there the signal is set to `value` (SHMEM_SIGNAL_SET) or takes it as
/// well (SHMEM_SIGNAL_ADD). Cost: one fence more than a put.
template <class Group>
TND_DEVICE inline status put_signal(Group group, void *target, const void *source, size_t size,
                                    uint64_t *signal, uint64_t value, int operation, int pe,
                                    u64 context = default_context) {
  return bodies::put_signal<bodies::ends::at_once>(
      group, context, target, source, size, reinterpret_cast<u64 *>(signal), value, operation, pe);
}

/// Wait until `*at cmp with` (SHMEM_CMP_*) holds; the PE's own symmetric memory. ok, or why it gave
/// up.
template <class Group, class T>
TND_DEVICE inline status wait_until(Group group, const T *at, int cmp, T with) {
  return bodies::wait(group, at, cmp, with);
}

/// What is before it is seen at a PE before what comes after it; everything is done.
template <class Group>
TND_DEVICE inline status fence(Group group, u64 context = default_context) {
  return bodies::fence(group, context);
}
template <class Group>
TND_DEVICE inline status quiet(Group group, u64 context = default_context) {
  return bodies::quiet(group, context);
}

/// Collective over a team, one group of each PE: all have come; barrier: and what their groups put
/// is there.
template <class Group>
TND_DEVICE inline status sync(Group group, u64 team = world_team) {
  return bodies::sync(group, team);
}
template <class Group>
TND_DEVICE inline status barrier(Group group, u64 team = world_team) {
  return bodies::barrier(group, team);
}

/// Collectives of a team that move data, one group of each PE; target is symmetric, and for
/// reductions the source, too. On return the result is there, and the source may change. Sizes are
/// bytes of one PE's part; `Op` is a tanada::shmem::device::reduction, taken in the order of the
/// PEs, so that all have the same. Parts of up to 4 KiB (fewer with more than 8 PEs) take one store
/// to each PE.
template <class Group>
TND_DEVICE inline status broadcast(Group group, void *target, const void *source, size_t size,
                                   int root, u64 team = world_team) {
  return bodies::broadcast(group, team, target, source, size, root);
}
template <class Group>
TND_DEVICE inline status fcollect(Group group, void *target, const void *source, size_t size,
                                  u64 team = world_team) {
  return bodies::fcollect(group, team, target, source, size);
}
template <class Group>
TND_DEVICE inline status alltoall(Group group, void *target, const void *source, size_t size,
                                  u64 team = world_team) {
  return bodies::alltoall(group, team, target, source, size);
}
template <bodies::reduction Op, class Group, class T>
TND_DEVICE inline status reduce(Group group, T *target, const T *source, size_t element_count,
                                u64 team = world_team) {
  return bodies::reduce<Op>(group, team, target, source, element_count);
}

}  // namespace tanada::shmemg

#include "device_names.cuh"
#include "device_collectives.cuh"
