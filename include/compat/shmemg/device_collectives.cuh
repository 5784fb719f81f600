// shmemg/device_collectives.cuh: names for collectives that move data, of shmemg/device.cuh. Not
// for direct inclusion.
#pragma once

// Of SHMEM_TABLE_RMA: what devices compute with. As the tables of shmem/types.h.
#define SHMEMG_TABLE_REDUCE(X, A)                                        \
  X(float, float, A) X(double, double, A) SHMEM_TABLE_SMALL_SIGNED(X, A) \
  SHMEM_TABLE_SMALL_UNSIGNED(X, A)                                       \
  SHMEM_TABLE_SMALL_FIXED(X, A)                                          \
  SHMEM_TABLE_AMO(X, A)

// Nonzero: see shmemg/device.cuh.
#define SHMEMG_MOVES_(NAME, TYPE, S, GROUP)                                                      \
  SHMEMG_DEVICE inline int shmemgx_##NAME##_broadcast##S(                                        \
      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, int PE_root) {           \
    return int(tanada::shmemg::broadcast(tanada::GROUP{},                                        \
                                         dest,                                                   \
                                         source,                                                 \
                                         nelems * sizeof *dest,                                  \
                                         PE_root,                                                \
                                         tanada::shmemg::number_of(team)));                      \
  }                                                                                              \
  SHMEMG_DEVICE inline int shmemgx_##NAME##_fcollect##S(                                         \
      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) {                        \
    return int(tanada::shmemg::fcollect(                                                         \
        tanada::GROUP{}, dest, source, nelems * sizeof *dest, tanada::shmemg::number_of(team))); \
  }                                                                                              \
  SHMEMG_DEVICE inline int shmemgx_##NAME##_alltoall##S(                                         \
      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) {                        \
    return int(tanada::shmemg::alltoall(                                                         \
        tanada::GROUP{}, dest, source, nelems * sizeof *dest, tanada::shmemg::number_of(team))); \
  }

#define SHMEMG_REDUCE_(NAME, TYPE, S, GROUP, OP, KIND)                             \
  SHMEMG_DEVICE inline int shmemgx_##NAME##_##OP##_reduce##S(                      \
      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) {         \
    return int(tanada::shmemg::reduce<tanada::shmem::device::reduction::KIND>(     \
        tanada::GROUP{}, dest, source, nreduce, tanada::shmemg::number_of(team))); \
  }
#define SHMEMG_REDUCES_(NAME, TYPE, S, GROUP)      \
  SHMEMG_REDUCE_(NAME, TYPE, S, GROUP, sum, sum)   \
  SHMEMG_REDUCE_(NAME, TYPE, S, GROUP, prod, prod) \
  SHMEMG_REDUCE_(NAME, TYPE, S, GROUP, min, min)   \
  SHMEMG_REDUCE_(NAME, TYPE, S, GROUP, max, max)
#define SHMEMG_REDUCE_BITS_(NAME, TYPE, S, GROUP)    \
  SHMEMG_REDUCE_(NAME, TYPE, S, GROUP, and, bit_and) \
  SHMEMG_REDUCE_(NAME, TYPE, S, GROUP, or, bit_or)   \
  SHMEMG_REDUCE_(NAME, TYPE, S, GROUP, xor, bit_xor)

#define SHMEMG_BY_GROUP_(X, NAME, TYPE) \
  X(NAME, TYPE, , this_thread) X(NAME, TYPE, _tg, this_block) X(NAME, TYPE, _htg, this_warp)
#define SHMEMG_ALL_MOVES_(NAME, TYPE, A) SHMEMG_BY_GROUP_(SHMEMG_MOVES_, NAME, TYPE)
#define SHMEMG_ALL_REDUCES_(NAME, TYPE, A) SHMEMG_BY_GROUP_(SHMEMG_REDUCES_, NAME, TYPE)
#define SHMEMG_ALL_REDUCE_BITS_(NAME, TYPE, A) SHMEMG_BY_GROUP_(SHMEMG_REDUCE_BITS_, NAME, TYPE)

SHMEM_TABLE_RMA(SHMEMG_ALL_MOVES_, )
SHMEMG_TABLE_REDUCE(SHMEMG_ALL_REDUCES_, )
SHMEM_TABLE_REDUCE_BITS(SHMEMG_ALL_REDUCE_BITS_, )
// Of bytes.
#define SHMEMG_MEMORY_(S, GROUP)                                                           \
  SHMEMG_DEVICE inline int shmemgx_broadcastmem##S(                                        \
      shmem_team_t team, void *dest, const void *source, size_t nelems, int PE_root) {     \
    return int(tanada::shmemg::broadcast(                                                  \
        tanada::GROUP{}, dest, source, nelems, PE_root, tanada::shmemg::number_of(team))); \
  }                                                                                        \
  SHMEMG_DEVICE inline int shmemgx_fcollectmem##S(                                         \
      shmem_team_t team, void *dest, const void *source, size_t nelems) {                  \
    return int(tanada::shmemg::fcollect(                                                   \
        tanada::GROUP{}, dest, source, nelems, tanada::shmemg::number_of(team)));          \
  }                                                                                        \
  SHMEMG_DEVICE inline int shmemgx_alltoallmem##S(                                         \
      shmem_team_t team, void *dest, const void *source, size_t nelems) {                  \
    return int(tanada::shmemg::alltoall(                                                   \
        tanada::GROUP{}, dest, source, nelems, tanada::shmemg::number_of(team)));          \
  }
SHMEMG_MEMORY_(, this_thread)
SHMEMG_MEMORY_(_tg, this_block)
SHMEMG_MEMORY_(_htg, this_warp)

#undef SHMEMG_MOVES_
#undef SHMEMG_REDUCE_
#undef SHMEMG_REDUCES_
#undef SHMEMG_REDUCE_BITS_
#undef SHMEMG_BY_GROUP_
#undef SHMEMG_ALL_MOVES_
#undef SHMEMG_ALL_REDUCES_
#undef SHMEMG_ALL_REDUCE_BITS_
#undef SHMEMG_MEMORY_
