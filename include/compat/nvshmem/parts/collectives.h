// parts/collectives.h: collectives that move data, in kernels and, by a stream of the library's, in
// host code. Not for direct inclusion.
#pragma once

#include "wait.h"

#include <tanada/device/detail/shmem/reduce_scatter_on_stream.hpp>

namespace tanada::nvshmem {

template <class Group>
TND_DEVICE inline int broadcast(
    Group group, nvshmem_team_t team, void *dest, const void *source, size_t size, int root) {
  return int(bodies::broadcast(group, team_number(team), dest, source, size, root));
}
template <class Group>
TND_DEVICE inline int fcollect(
    Group group, nvshmem_team_t team, void *dest, const void *source, size_t size) {
  return int(bodies::fcollect(group, team_number(team), dest, source, size));
}
template <class Group>
TND_DEVICE inline int alltoall(
    Group group, nvshmem_team_t team, void *dest, const void *source, size_t size) {
  return int(bodies::alltoall(group, team_number(team), dest, source, size));
}
template <bodies::reduction Op, class Group, class T>
TND_DEVICE inline int reduce(
    Group group, nvshmem_team_t team, T *dest, const T *source, size_t count) {
  return int(bodies::reduce<Op>(group, team_number(team), dest, source, count));
}
template <bodies::reduction Op, class Group, class T>
TND_DEVICE inline int reduce_scatter(
    Group group, nvshmem_team_t team, T *dest, const T *source, size_t count) {
  return int(bodies::reduce_scatter<Op>(group, team_number(team), dest, source, count));
}

// ---- in the order of a stream. Templates, so that only kernels that are used are compiled.

template <class T>
int broadcast_on_stream(
    nvshmem_team_t team, T *dest, const T *source, size_t count, int root, cudaStream_t stream) {
  return bodies::broadcast_on_stream(host_team(team),
                                     dest,
                                     source,
                                     bodies::size_of_elements(dest, count),
                                     root,
                                     stream_of(stream));
}
template <class T>
int fcollect_on_stream(
    nvshmem_team_t team, T *dest, const T *source, size_t count, cudaStream_t stream) {
  return bodies::fcollect_on_stream(
      host_team(team), dest, source, bodies::size_of_elements(dest, count), stream_of(stream));
}
template <class T>
int alltoall_on_stream(
    nvshmem_team_t team, T *dest, const T *source, size_t count, cudaStream_t stream) {
  return bodies::alltoall_on_stream(
      host_team(team), dest, source, bodies::size_of_elements(dest, count), stream_of(stream));
}
template <bodies::reduction Op, class T>
int reduce_on_stream(
    nvshmem_team_t team, T *dest, const T *source, size_t count, cudaStream_t stream) {
  return bodies::reduce_on_stream<Op>(host_team(team), dest, source, count, stream_of(stream));
}
template <bodies::reduction Op, class T>
int reduce_scatter_on_stream(
    nvshmem_team_t team, T *dest, const T *source, size_t count, cudaStream_t stream) {
  return bodies::reduce_scatter_on_stream<Op>(
      host_team(team), dest, source, count, stream_of(stream));
}

}  // namespace tanada::nvshmem

#define NVSHMEM_MOVES_(NAME, TYPE, A)                                                             \
  NVSHMEM_BOTH_ int nvshmem_##NAME##_broadcast(                                                   \
      nvshmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, int PE_root) {          \
    NVSHMEM_SELECT_(                                                                              \
        tanada::nvshmem::broadcast(                                                               \
            tanada::this_thread{}, team, dest, source, nelems * sizeof(TYPE), PE_root),           \
        tanada::nvshmem::wait_for_default_stream(                                                 \
            tanada::nvshmem::broadcast_on_stream(team, dest, source, nelems, PE_root, nullptr))); \
  }                                                                                               \
  NVSHMEM_BOTH_ int nvshmem_##NAME##_fcollect(                                                    \
      nvshmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) {                       \
    NVSHMEM_SELECT_(tanada::nvshmem::fcollect(                                                    \
                        tanada::this_thread{}, team, dest, source, nelems * sizeof(TYPE)),        \
                    tanada::nvshmem::wait_for_default_stream(tanada::nvshmem::fcollect_on_stream( \
                        team, dest, source, nelems, nullptr)));                                   \
  }                                                                                               \
  NVSHMEM_BOTH_ int nvshmem_##NAME##_alltoall(                                                    \
      nvshmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) {                       \
    NVSHMEM_SELECT_(tanada::nvshmem::alltoall(                                                    \
                        tanada::this_thread{}, team, dest, source, nelems * sizeof(TYPE)),        \
                    tanada::nvshmem::wait_for_default_stream(tanada::nvshmem::alltoall_on_stream( \
                        team, dest, source, nelems, nullptr)));                                   \
  }                                                                                               \
  NVSHMEMX_MOVES_(NAME, TYPE, warp, this_warp)                                                    \
  NVSHMEMX_MOVES_(NAME, TYPE, block, this_block)
#define NVSHMEMX_MOVES_(NAME, TYPE, S, GROUP)                                                     \
  NVSHMEM_DEVICE_ int nvshmemx_##NAME##_broadcast_##S(                                            \
      nvshmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, int PE_root) {          \
    return tanada::nvshmem::broadcast(                                                            \
        tanada::GROUP{}, team, dest, source, nelems * sizeof(TYPE), PE_root);                     \
  }                                                                                               \
  NVSHMEM_DEVICE_ int nvshmemx_##NAME##_fcollect_##S(                                             \
      nvshmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) {                       \
    return tanada::nvshmem::fcollect(tanada::GROUP{}, team, dest, source, nelems * sizeof(TYPE)); \
  }                                                                                               \
  NVSHMEM_DEVICE_ int nvshmemx_##NAME##_alltoall_##S(                                             \
      nvshmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) {                       \
    return tanada::nvshmem::alltoall(tanada::GROUP{}, team, dest, source, nelems * sizeof(TYPE)); \
  }

// nvcc compiles the kernels that its pass for GPUs finds: there only the other branch is.
#define NVSHMEM_KEEP_KERNEL_(BODY, KIND, TYPE) \
  static_cast<void>(&tanada::nvshmem::bodies::BODY##_kernel<KIND, TYPE>)
// CALL: reduce or reducescatter; BODY: the function of tanada::nvshmem. A template, so that only
// kernels that are used are compiled.
#define NVSHMEM_REDUCTION_(NAME, TYPE, OP, KIND, CALL, BODY)                                 \
  template <class Element = TYPE>                                                            \
  NVSHMEM_BOTH_ int nvshmem_##NAME##_##OP##_##CALL(                                          \
      nvshmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) {                 \
    constexpr auto kind = tanada::nvshmem::bodies::reduction::KIND;                          \
    NVSHMEM_SELECT_(                                                                         \
        (NVSHMEM_KEEP_KERNEL_(BODY, kind, Element),                                          \
         tanada::nvshmem::BODY<kind>(tanada::this_thread{}, team, dest, source, nreduce)),   \
        tanada::nvshmem::wait_for_default_stream(                                            \
            tanada::nvshmem::BODY##_on_stream<kind>(team, dest, source, nreduce, nullptr))); \
  }                                                                                          \
  NVSHMEM_DEVICE_ int nvshmemx_##NAME##_##OP##_##CALL##_warp(                                \
      nvshmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) {                 \
    return tanada::nvshmem::BODY<tanada::nvshmem::bodies::reduction::KIND>(                  \
        tanada::this_warp{}, team, dest, source, nreduce);                                   \
  }                                                                                          \
  NVSHMEM_DEVICE_ int nvshmemx_##NAME##_##OP##_##CALL##_block(                               \
      nvshmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) {                 \
    return tanada::nvshmem::BODY<tanada::nvshmem::bodies::reduction::KIND>(                  \
        tanada::this_block{}, team, dest, source, nreduce);                                  \
  }
#define NVSHMEM_REDUCE_(NAME, TYPE, OP, KIND)              \
  NVSHMEM_REDUCTION_(NAME, TYPE, OP, KIND, reduce, reduce) \
  NVSHMEM_REDUCTION_(NAME, TYPE, OP, KIND, reducescatter, reduce_scatter)
#define NVSHMEM_REDUCES_(NAME, TYPE, A)   \
  NVSHMEM_REDUCE_(NAME, TYPE, sum, sum)   \
  NVSHMEM_REDUCE_(NAME, TYPE, prod, prod) \
  NVSHMEM_REDUCE_(NAME, TYPE, min, min)   \
  NVSHMEM_REDUCE_(NAME, TYPE, max, max)
#define NVSHMEM_REDUCE_BITS_(NAME, TYPE, A) \
  NVSHMEM_REDUCE_(NAME, TYPE, and, bit_and) \
  NVSHMEM_REDUCE_(NAME, TYPE, or, bit_or)   \
  NVSHMEM_REDUCE_(NAME, TYPE, xor, bit_xor)

NVSHMEM_TABLE_RMA_(NVSHMEM_MOVES_, )
NVSHMEM_TABLE_RMA_(NVSHMEM_REDUCES_, )
NVSHMEM_TABLE_REDUCE_BITS_(NVSHMEM_REDUCE_BITS_, )
// Of pairs of a value and its place: that of the largest value.
NVSHMEM_REDUCTION_(double2, double2, maxloc, max_location, reduce, reduce)

// Of bytes.
#define NVSHMEM_MEMORY_(P, S, QUALIFIER)                                                      \
  QUALIFIER int P##_broadcastmem##S(                                                          \
      nvshmem_team_t team, void *dest, const void *source, size_t nelems, int PE_root) {      \
    return P##_uchar_broadcast##S(                                                            \
        team, tanada::nvshmem::bytes(dest), tanada::nvshmem::bytes(source), nelems, PE_root); \
  }                                                                                           \
  QUALIFIER int P##_fcollectmem##S(                                                           \
      nvshmem_team_t team, void *dest, const void *source, size_t nelems) {                   \
    return P##_uchar_fcollect##S(                                                             \
        team, tanada::nvshmem::bytes(dest), tanada::nvshmem::bytes(source), nelems);          \
  }                                                                                           \
  QUALIFIER int P##_alltoallmem##S(                                                           \
      nvshmem_team_t team, void *dest, const void *source, size_t nelems) {                   \
    return P##_uchar_alltoall##S(                                                             \
        team, tanada::nvshmem::bytes(dest), tanada::nvshmem::bytes(source), nelems);          \
  }
NVSHMEM_MEMORY_(nvshmem, , NVSHMEM_BOTH_)
NVSHMEM_MEMORY_(nvshmemx, _warp, NVSHMEM_DEVICE_)
NVSHMEM_MEMORY_(nvshmemx, _block, NVSHMEM_DEVICE_)

#undef NVSHMEM_MOVES_
#undef NVSHMEMX_MOVES_
#undef NVSHMEM_REDUCTION_
#undef NVSHMEM_REDUCE_
#undef NVSHMEM_REDUCES_
#undef NVSHMEM_REDUCE_BITS_
#undef NVSHMEM_MEMORY_
