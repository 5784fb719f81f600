// shmemg/device.cuh: the calls for kernels. C++17, under nvcc and for the host executor.
//
// Each call exists under the draft's name, and as a template that takes the calling group. The
// named functions call the templates.
//
//   shmemg_putmem(target, source, size, pe)               one thread
//   shmemg_putmem_htg(...), shmemg_putmem_tg(...)         all threads of a warp, of a block
//   tanada::shmemg::put(group, target, source, size, pe)  this_thread, this_warp or this_block
//
// Names that begin with shmemgx_ are not in the draft. The following holds for every call.
//   Group:      All threads of the group call with equal arguments, in converged flow, and get
//               equal results. Data that they stored before the call is part of a put. Calls of a
//               block use some bytes of shared memory.
//   Target:     Symmetric addresses are those of this PE's device heap (shmemg_malloc). A local
//               address may be any memory that the kernel accesses. Where the PE's memory is not
//               mapped (shmemg_ptr() is null), more than 1024 bytes of a stack or of shared memory
//               take several requests.
//   Visibility: The result of a put, set or update is visible at the target when a quiet has
//               returned. A fence orders it before later ones. A wait or test that sees a value
//               also sees what its writer wrote before its fence, put_signal or sync.
//   Types:      Those of the host's calls. On GPUs long double is double, so that only on the host
//               executor it is the host's type.
//   Waiting:    A wait also returns when a PE has failed, and after TND_SHMEM_DEVICE_TIMEOUT (by
//               default unlimited).
//   Errors:     The call has no effect. The first fault of the PE's kernels is kept: the host's
//               next call that waits ends the job with a message that names the device call, block
//               and thread. Calls that return int return nonzero. Those with a status return
//               invalid (no such PE, context or team), range (not in the device heap), fault (not
//               aligned), peer_lost, timed_out or not_supported (no path to the PE).
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "../shmem/types.h"
#include "handles.h"

#include <tanada/device/detail/shmem/calls/all.hpp>

#define SHMEMG_DEVICE TND_DEVICE

namespace tanada::shmemg {

namespace bodies = ::tanada::shmem::device;

/// The number of a context: SHMEM_DEVICE_CTX_DEFAULT, or one that
/// shmem_ctx_create(SHMEM_DEVICE_CTX) returned.
TND_DEVICE inline u64 number_of(shmem_ctx_t context) {
  return u64(reinterpret_cast<uintptr_t>(context));
}
TND_DEVICE inline u64 number_of(shmem_team_t team) {
  return u64(reinterpret_cast<uintptr_t>(team));
}
inline constexpr u64 default_context = bodies::context_first;
inline constexpr u64 world_team = bodies::team_first;

/// Copy `size` bytes from `source` to `target` at `pe`. The source is reusable on return, for
/// put_nbi after a quiet.
template <class Group>
TND_DEVICE inline status put(Group group,
                             void *target,
                             const void *source,
                             size_t size,
                             int pe,
                             u64 context = default_context) {
  return bodies::put<bodies::ends::at_once>(group, context, target, source, size, pe);
}
template <class Group>
TND_DEVICE inline status put_nbi(Group group,
                                 void *target,
                                 const void *source,
                                 size_t size,
                                 int pe,
                                 u64 context = default_context) {
  return bodies::put<bodies::ends::later>(group, context, target, source, size, pe);
}

/// Copy `size` bytes from `source` at `pe` to `target`. The bytes have arrived on return, for
/// get_nbi after a quiet.
template <class Group>
TND_DEVICE inline status get(Group group,
                             void *target,
                             const void *source,
                             size_t size,
                             int pe,
                             u64 context = default_context) {
  return bodies::get<bodies::ends::at_once>(group, context, target, source, size, pe);
}
template <class Group>
TND_DEVICE inline status get_nbi(Group group,
                                 void *target,
                                 const void *source,
                                 size_t size,
                                 int pe,
                                 u64 context = default_context) {
  return bodies::get<bodies::ends::later>(group, context, target, source, size, pe);
}

/// Copy `count` elements at a stride in elements on either side. Completion is that of put and get.
template <class Group, class T>
TND_DEVICE inline status iput(Group group,
                              T *target,
                              const T *source,
                              ptrdiff_t target_stride,
                              ptrdiff_t source_stride,
                              size_t count,
                              int pe,
                              u64 context = default_context) {
  return bodies::put_rows(
      group, context, target, source, {target_stride, source_stride}, count, pe);
}
template <class Group, class T>
TND_DEVICE inline status iget(Group group,
                              T *target,
                              const T *source,
                              ptrdiff_t target_stride,
                              ptrdiff_t source_stride,
                              size_t count,
                              int pe,
                              u64 context = default_context) {
  return bodies::get_rows(
      group, context, target, source, {target_stride, source_stride}, count, pe);
}

/// A put that, after the bytes have arrived, sets the signal to `value` (SHMEM_SIGNAL_SET) or adds
/// `value` to it (SHMEM_SIGNAL_ADD). Cost: one fence more than a put.
template <class Group>
TND_DEVICE inline status put_signal(Group group,
                                    void *target,
                                    const void *source,
                                    size_t size,
                                    uint64_t *signal,
                                    uint64_t value,
                                    int operation,
                                    int pe,
                                    u64 context = default_context) {
  return bodies::put_signal<bodies::ends::at_once>(
      group, context, target, source, size, reinterpret_cast<u64 *>(signal), value, operation, pe);
}

/// Wait until `*at cmp with` (SHMEM_CMP_*) holds in the PE's own symmetric memory. Returns ok, or
/// the reason why the wait ended.
template <class Group, class T>
TND_DEVICE inline status wait_until(Group group, const T *at, int cmp, T with) {
  return bodies::wait(group, at, cmp, with);
}

/// fence: earlier operations are visible at a PE before later ones. quiet: they are complete.
template <class Group>
TND_DEVICE inline status fence(Group group, u64 context = default_context) {
  return bodies::fence(group, context);
}
template <class Group>
TND_DEVICE inline status quiet(Group group, u64 context = default_context) {
  return bodies::quiet(group, context);
}

/// Collective over a team, one group of each PE. sync: all groups have arrived. barrier: their puts
/// are also complete.
template <class Group>
TND_DEVICE inline status sync(Group group, u64 team = world_team) {
  return bodies::sync(group, team);
}
template <class Group>
TND_DEVICE inline status barrier(Group group, u64 team = world_team) {
  return bodies::barrier(group, team);
}

/// Collectives of a team that move data, one group of each PE. The target is symmetric, for
/// reductions also the source. On return the result has arrived and the source is reusable. Sizes
/// are bytes of one PE's part. `Op` is a tanada::shmem::device::reduction, applied in the order of
/// the PEs, so that all get the same result. Parts of up to 4 KiB (fewer with more than 8 PEs) take
/// one store to each PE.
template <class Group>
TND_DEVICE inline status broadcast(
    Group group, void *target, const void *source, size_t size, int root, u64 team = world_team) {
  return bodies::broadcast(group, team, target, source, size, root);
}
template <class Group>
TND_DEVICE inline status fcollect(
    Group group, void *target, const void *source, size_t size, u64 team = world_team) {
  return bodies::fcollect(group, team, target, source, size);
}
template <class Group>
TND_DEVICE inline status alltoall(
    Group group, void *target, const void *source, size_t size, u64 team = world_team) {
  return bodies::alltoall(group, team, target, source, size);
}
template <bodies::reduction Op, class Group, class T>
TND_DEVICE inline status reduce(
    Group group, T *target, const T *source, size_t element_count, u64 team = world_team) {
  return bodies::reduce<Op>(group, team, target, source, element_count);
}

}  // namespace tanada::shmemg

#include "device_names.cuh"
#include "device_collectives.cuh"
