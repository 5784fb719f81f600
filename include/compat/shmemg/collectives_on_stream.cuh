// shmemg/collectives_on_stream.cuh: collectives in the order of a stream, of shmemx_on_stream.cuh.
// Not for direct inclusion.
//
//   int shmemx_team_sync_on_stream(team, stream)               sync_all of all PEs
//   int shmemx_team_barrier_on_stream(team, stream)            a quiet, then a sync
//   int shmemx_TYPE_broadcast_on_stream(team, dest, source, nelems, PE_root, stream)
//   int shmemx_TYPE_fcollect_on_stream(team, dest, source, nelems, stream)
//   int shmemx_TYPE_alltoall_on_stream(team, dest, source, nelems, stream)
//   int shmemx_TYPE_OP_reduce_on_stream(team, dest, source, nreduce, stream)
//
// They mean what those of kernels mean (shmemgx_TYPE_broadcast and so on), of teams of devices: a
// broadcast's root has the data in its dest, too. What the stream has put before is part of what is
// sent; when the stream goes on, the result is there and the source may change.
//   Target:   dest and, of reductions, source are of the device heap, ready in all members when the
//   first one's stream comes to it.
//             Other sources are any memory of the device, dest among them for broadcasts.
//   Ordering: a team has one collective at a time, in kernels and on streams: all of a team are
//   queued on one stream, or streams that
//             wait for each other, in the same order in all members.
//   Waiting:  as of calls in kernels: until a PE is known to be lost, or TND_SHMEM_DEVICE_TIMEOUT
//   is over. Then the stream goes on. Returns:  0: it is queued. EINVAL, negative: no such team of
//   devices here, or no such root; EIO: the driver refuses the launch.
//             What is wrong is kept in any case, as of calls in kernels: the host's next call that
//             waits ends the job with a message that names the collective; so it is with addresses
//             that are not of the heap.
//   Cost:     one kernel. Parts that take 32 KiB in all are one block's, larger ones those of up to
//   128.
// Reductions are templates, so that only those that are used are compiled.
#pragma once

inline int shmemx_team_sync_on_stream(shmem_team_t team, shmemx_stream_t stream) {
  return tanada::shmem::device::sync_on_stream(team, stream);
}
inline int shmemx_sync_all_on_stream(shmemx_stream_t stream) {
  return shmemx_team_sync_on_stream(SHMEM_DEVICE_TEAM_WORLD, stream);
}
inline int shmemx_team_barrier_on_stream(shmem_team_t team, shmemx_stream_t stream) {
  return tanada::shmem::device::barrier_on_stream(team, stream);
}

// Of bytes.
inline int shmemx_broadcastmem_on_stream(shmem_team_t team,
                                         void *dest,
                                         const void *source,
                                         size_t nelems,
                                         int PE_root,
                                         shmemx_stream_t stream) {
  return tanada::shmem::device::broadcast_on_stream(team, dest, source, nelems, PE_root, stream);
}
inline int shmemx_fcollectmem_on_stream(
    shmem_team_t team, void *dest, const void *source, size_t nelems, shmemx_stream_t stream) {
  return tanada::shmem::device::fcollect_on_stream(team, dest, source, nelems, stream);
}
inline int shmemx_alltoallmem_on_stream(
    shmem_team_t team, void *dest, const void *source, size_t nelems, shmemx_stream_t stream) {
  return tanada::shmem::device::alltoall_on_stream(team, dest, source, nelems, stream);
}

#define SHMEMX_MOVES_ON_STREAM_(NAME, TYPE, A)                                                    \
  inline int shmemx_##NAME##_broadcast_on_stream(shmem_team_t team,                               \
                                                 TYPE *dest,                                      \
                                                 const TYPE *source,                              \
                                                 size_t nelems,                                   \
                                                 int PE_root,                                     \
                                                 shmemx_stream_t stream) {                        \
    return shmemx_broadcastmem_on_stream(team,                                                    \
                                         dest,                                                    \
                                         source,                                                  \
                                         tanada::shmem::device::size_of_elements(dest, nelems),   \
                                         PE_root,                                                 \
                                         stream);                                                 \
  }                                                                                               \
  inline int shmemx_##NAME##_fcollect_on_stream(                                                  \
      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, shmemx_stream_t stream) { \
    return shmemx_fcollectmem_on_stream(                                                          \
        team, dest, source, tanada::shmem::device::size_of_elements(dest, nelems), stream);       \
  }                                                                                               \
  inline int shmemx_##NAME##_alltoall_on_stream(                                                  \
      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, shmemx_stream_t stream) { \
    return shmemx_alltoallmem_on_stream(                                                          \
        team, dest, source, tanada::shmem::device::size_of_elements(dest, nelems), stream);       \
  }

#define SHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, OP, KIND)                                             \
  template <class Element = TYPE>                                                                  \
  int shmemx_##NAME##_##OP##_reduce_on_stream(                                                     \
      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce, shmemx_stream_t stream) { \
    return tanada::shmem::device::reduce_on_stream<tanada::shmem::device::reduction::KIND,         \
                                                   Element>(team, dest, source, nreduce, stream);  \
  }
#define SHMEMX_REDUCES_ON_STREAM_(NAME, TYPE, A)   \
  SHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, sum, sum)   \
  SHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, prod, prod) \
  SHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, min, min)   \
  SHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, max, max)
#define SHMEMX_REDUCE_BITS_ON_STREAM_(NAME, TYPE, A) \
  SHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, and, bit_and) \
  SHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, or, bit_or)   \
  SHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, xor, bit_xor)

SHMEM_TABLE_RMA(SHMEMX_MOVES_ON_STREAM_, )
SHMEMG_TABLE_REDUCE(SHMEMX_REDUCES_ON_STREAM_, )
SHMEM_TABLE_REDUCE_BITS(SHMEMX_REDUCE_BITS_ON_STREAM_, )

#undef SHMEMX_MOVES_ON_STREAM_
#undef SHMEMX_REDUCE_ON_STREAM_
#undef SHMEMX_REDUCES_ON_STREAM_
#undef SHMEMX_REDUCE_BITS_ON_STREAM_
