/* shmem/collectives.h: collective operations of a team or an active set. C99 and C++11. */
#ifndef TANADA_COMPAT_SHMEM_COLLECTIVES_H
#define TANADA_COMPAT_SHMEM_COLLECTIVES_H

#include "constants.h"
#include "types.h"

#include "begin.h"

/* All PEs of the team call these, in the same order as the team's other collectives. barrier: a
 * quiet of the default context, then a sync. Return nonzero if an argument is invalid
 * (SHMEM_TEAM_INVALID). 9.10. */
#define SHMEM_DECLARE_COLLECTIVES_(P)                                                         \
  void P##shmem_barrier_all(void);                                                            \
  void P##shmem_sync_all(void);                                                               \
  int P##shmem_team_sync(shmem_team_t team);                                                  \
  int P##shmem_alltoallmem(shmem_team_t team, void *dest, const void *source, size_t nelems); \
  int P##shmem_alltoallsmem(shmem_team_t team,                                                \
                            void *dest,                                                       \
                            const void *source,                                               \
                            ptrdiff_t dst,                                                    \
                            ptrdiff_t sst,                                                    \
                            size_t nelems);                                                   \
  int P##shmem_broadcastmem(                                                                  \
      shmem_team_t team, void *dest, const void *source, size_t nelems, int PE_root);         \
  int P##shmem_collectmem(shmem_team_t team, void *dest, const void *source, size_t nelems);  \
  int P##shmem_fcollectmem(shmem_team_t team, void *dest, const void *source, size_t nelems); \
  SHMEM_OLD_ void P##shmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync); \
  SHMEM_OLD_ void P##shmem_sync(int PE_start, int logPE_stride, int PE_size, long *pSync);

#define SHMEM_DECLARE_COLLECTIVE_(NAME, TYPE, P)                                                   \
  int P##shmem_##NAME##_alltoall(                                                                  \
      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems);                           \
  int P##shmem_##NAME##_alltoalls(shmem_team_t team,                                               \
                                  TYPE *dest,                                                      \
                                  const TYPE *source,                                              \
                                  ptrdiff_t dst,                                                   \
                                  ptrdiff_t sst,                                                   \
                                  size_t nelems);                                                  \
  int P##shmem_##NAME##_broadcast(                                                                 \
      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, int PE_root);              \
  int P##shmem_##NAME##_collect(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems); \
  int P##shmem_##NAME##_fcollect(                                                                  \
      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems);                           \
  SHMEM_DECLARE_REDUCE_(NAME, TYPE, P, max)                                                        \
  SHMEM_DECLARE_REDUCE_(NAME, TYPE, P, min)

#define SHMEM_DECLARE_REDUCE_(NAME, TYPE, P, OP) \
  int P##shmem_##NAME##_##OP##_reduce(           \
      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce);

#define SHMEM_DECLARE_REDUCE_BITS_(NAME, TYPE, P) \
  SHMEM_DECLARE_REDUCE_(NAME, TYPE, P, and)       \
  SHMEM_DECLARE_REDUCE_(NAME, TYPE, P, or)        \
  SHMEM_DECLARE_REDUCE_(NAME, TYPE, P, xor)

#define SHMEM_DECLARE_REDUCE_ARITHMETIC_(NAME, TYPE, P)                  \
  SHMEM_DECLARE_REDUCE_(NAME, TYPE, P, sum)                              \
  SHMEM_DECLARE_REDUCE_(NAME, TYPE, P, prod)                             \
  int P##shmem_##NAME##_sum_inscan(                                      \
      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems); \
  int P##shmem_##NAME##_sum_exscan(                                      \
      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems);

/* Deprecated: active sets. */
#define SHMEM_DECLARE_OLD_COLLECTIVES_(BITS, P)                \
  SHMEM_OLD_ void P##shmem_alltoall##BITS(void *dest,          \
                                          const void *source,  \
                                          size_t nelems,       \
                                          int PE_start,        \
                                          int logPE_stride,    \
                                          int PE_size,         \
                                          long *pSync);        \
  SHMEM_OLD_ void P##shmem_alltoalls##BITS(void *dest,         \
                                           const void *source, \
                                           ptrdiff_t dst,      \
                                           ptrdiff_t sst,      \
                                           size_t nelems,      \
                                           int PE_start,       \
                                           int logPE_stride,   \
                                           int PE_size,        \
                                           long *pSync);       \
  SHMEM_OLD_ void P##shmem_broadcast##BITS(void *dest,         \
                                           const void *source, \
                                           size_t nelems,      \
                                           int PE_root,        \
                                           int PE_start,       \
                                           int logPE_stride,   \
                                           int PE_size,        \
                                           long *pSync);       \
  SHMEM_OLD_ void P##shmem_collect##BITS(void *dest,           \
                                         const void *source,   \
                                         size_t nelems,        \
                                         int PE_start,         \
                                         int logPE_stride,     \
                                         int PE_size,          \
                                         long *pSync);         \
  SHMEM_OLD_ void P##shmem_fcollect##BITS(void *dest,          \
                                          const void *source,  \
                                          size_t nelems,       \
                                          int PE_start,        \
                                          int logPE_stride,    \
                                          int PE_size,         \
                                          long *pSync);

#define SHMEM_DECLARE_TO_ALL_(NAME, TYPE, P, OP)                      \
  SHMEM_OLD_ void P##shmem_##NAME##_##OP##_to_all(TYPE *dest,         \
                                                  const TYPE *source, \
                                                  int nreduce,        \
                                                  int PE_start,       \
                                                  int logPE_stride,   \
                                                  int PE_size,        \
                                                  TYPE *pWrk,         \
                                                  long *pSync);

#define SHMEM_DECLARE_TO_ALL_BITS_(NAME, TYPE, P) \
  SHMEM_DECLARE_TO_ALL_(NAME, TYPE, P, and)       \
  SHMEM_DECLARE_TO_ALL_(NAME, TYPE, P, or)        \
  SHMEM_DECLARE_TO_ALL_(NAME, TYPE, P, xor)
#define SHMEM_DECLARE_TO_ALL_ORDERED_(NAME, TYPE, P) \
  SHMEM_DECLARE_TO_ALL_(NAME, TYPE, P, max)          \
  SHMEM_DECLARE_TO_ALL_(NAME, TYPE, P, min)
#define SHMEM_DECLARE_TO_ALL_ARITHMETIC_(NAME, TYPE, P) \
  SHMEM_DECLARE_TO_ALL_(NAME, TYPE, P, sum)             \
  SHMEM_DECLARE_TO_ALL_(NAME, TYPE, P, prod)

SHMEM_DECLARE_COLLECTIVES_()
SHMEM_DECLARE_COLLECTIVES_(p)
SHMEM_TABLE_RMA(SHMEM_DECLARE_COLLECTIVE_, )
SHMEM_TABLE_RMA(SHMEM_DECLARE_COLLECTIVE_, p)
SHMEM_TABLE_REDUCE_BITS(SHMEM_DECLARE_REDUCE_BITS_, )
SHMEM_TABLE_REDUCE_BITS(SHMEM_DECLARE_REDUCE_BITS_, p)
SHMEM_TABLE_REDUCE_ARITHMETIC(SHMEM_DECLARE_REDUCE_ARITHMETIC_, )
SHMEM_TABLE_REDUCE_ARITHMETIC(SHMEM_DECLARE_REDUCE_ARITHMETIC_, p)
SHMEM_DECLARE_OLD_COLLECTIVES_(32, )
SHMEM_DECLARE_OLD_COLLECTIVES_(32, p)
SHMEM_DECLARE_OLD_COLLECTIVES_(64, )
SHMEM_DECLARE_OLD_COLLECTIVES_(64, p)
SHMEM_TABLE_OLD_REDUCE_BITS(SHMEM_DECLARE_TO_ALL_BITS_, )
SHMEM_TABLE_OLD_REDUCE_BITS(SHMEM_DECLARE_TO_ALL_BITS_, p)
SHMEM_TABLE_OLD_REDUCE_ORDERED(SHMEM_DECLARE_TO_ALL_ORDERED_, )
SHMEM_TABLE_OLD_REDUCE_ORDERED(SHMEM_DECLARE_TO_ALL_ORDERED_, p)
SHMEM_TABLE_OLD_REDUCE_ARITHMETIC(SHMEM_DECLARE_TO_ALL_ARITHMETIC_, )
SHMEM_TABLE_OLD_REDUCE_ARITHMETIC(SHMEM_DECLARE_TO_ALL_ARITHMETIC_, p)

#include "end.h"

#endif
