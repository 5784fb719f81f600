/* shmem/overloads.h: the calls of generics.h in C++: one overload for each type. C++11. */
#ifndef TANADA_COMPAT_SHMEM_OVERLOADS_H
#define TANADA_COMPAT_SHMEM_OVERLOADS_H

#include "amo.h"
#include "collectives.h"
#include "rma.h"
#include "wait.h"

/* SHMEM_OVERLOAD_: RESULT shmem_OP PARAMETERS calls shmem_NAME_OP ARGUMENTS. _CTX_: also defines
 * the overload with a context as the first argument. */
#define SHMEM_OPEN_(...) __VA_ARGS__
#define SHMEM_OVERLOAD_(RESULT, NAME, OP, PARAMETERS, ARGUMENTS) \
  inline RESULT shmem_##OP(SHMEM_OPEN_ PARAMETERS) {             \
    return shmem_##NAME##_##OP ARGUMENTS;                        \
  }
#define SHMEM_OVERLOAD_CTX_(RESULT, NAME, OP, PARAMETERS, ARGUMENTS)  \
  SHMEM_OVERLOAD_(RESULT, NAME, OP, PARAMETERS, ARGUMENTS)            \
  inline RESULT shmem_##OP(shmem_ctx_t ctx, SHMEM_OPEN_ PARAMETERS) { \
    return shmem_ctx_##NAME##_##OP(ctx, SHMEM_OPEN_ ARGUMENTS);       \
  }

#define SHMEM_OVERLOAD_RMA_(NAME, TYPE, A)                                                 \
  SHMEM_OVERLOAD_CTX_(void, NAME, p, (TYPE * dest, TYPE value, int pe), (dest, value, pe)) \
  SHMEM_OVERLOAD_CTX_(TYPE, NAME, g, (const TYPE *source, int pe), (source, pe))           \
  SHMEM_OVERLOAD_BLOCK_(NAME, TYPE, put)                                                   \
  SHMEM_OVERLOAD_BLOCK_(NAME, TYPE, get)                                                   \
  SHMEM_OVERLOAD_BLOCK_(NAME, TYPE, put_nbi)                                               \
  SHMEM_OVERLOAD_BLOCK_(NAME, TYPE, get_nbi)                                               \
  SHMEM_OVERLOAD_STRIDED_(NAME, TYPE, iput)                                                \
  SHMEM_OVERLOAD_STRIDED_(NAME, TYPE, iget)                                                \
  SHMEM_OVERLOAD_STRIDED_BLOCKS_(NAME, TYPE, ibput)                                        \
  SHMEM_OVERLOAD_STRIDED_BLOCKS_(NAME, TYPE, ibget)                                        \
  SHMEM_OVERLOAD_SIGNAL_(NAME, TYPE, put_signal)                                           \
  SHMEM_OVERLOAD_SIGNAL_(NAME, TYPE, put_signal_nbi)
#define SHMEM_OVERLOAD_BLOCK_(NAME, TYPE, OP)                                   \
  SHMEM_OVERLOAD_CTX_(void,                                                     \
                      NAME,                                                     \
                      OP,                                                       \
                      (TYPE * dest, const TYPE *source, size_t nelems, int pe), \
                      (dest, source, nelems, pe))
#define SHMEM_OVERLOAD_STRIDED_(NAME, TYPE, OP)                                               \
  SHMEM_OVERLOAD_CTX_(                                                                        \
      void,                                                                                   \
      NAME,                                                                                   \
      OP,                                                                                     \
      (TYPE * dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe), \
      (dest, source, dst, sst, nelems, pe))
#define SHMEM_OVERLOAD_STRIDED_BLOCKS_(NAME, TYPE, OP) \
  SHMEM_OVERLOAD_CTX_(void,                            \
                      NAME,                            \
                      OP,                              \
                      (TYPE * dest,                    \
                       const TYPE *source,             \
                       ptrdiff_t dst,                  \
                       ptrdiff_t sst,                  \
                       size_t bsize,                   \
                       size_t nblocks,                 \
                       int pe),                        \
                      (dest, source, dst, sst, bsize, nblocks, pe))
#define SHMEM_OVERLOAD_SIGNAL_(NAME, TYPE, OP) \
  SHMEM_OVERLOAD_CTX_(void,                    \
                      NAME,                    \
                      OP,                      \
                      (TYPE * dest,            \
                       const TYPE *source,     \
                       size_t nelems,          \
                       uint64_t *sig_addr,     \
                       uint64_t signal,        \
                       int sig_op,             \
                       int pe),                \
                      (dest, source, nelems, sig_addr, signal, sig_op, pe))
SHMEM_TABLE_RMA_DISTINCT(SHMEM_OVERLOAD_RMA_, )

inline void shmem_signal_set(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe) {
  shmem_ctx_signal_set(ctx, sig_addr, signal, pe);
}
inline void shmem_signal_add(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe) {
  shmem_ctx_signal_add(ctx, sig_addr, signal, pe);
}

#define SHMEM_OVERLOAD_FETCHING_(NAME, TYPE, OP)                                            \
  SHMEM_OVERLOAD_CTX_(TYPE, NAME, OP, (TYPE * dest, TYPE value, int pe), (dest, value, pe)) \
  SHMEM_OVERLOAD_CTX_(void,                                                                 \
                      NAME,                                                                 \
                      OP##_nbi,                                                             \
                      (TYPE * fetch, TYPE * dest, TYPE value, int pe),                      \
                      (fetch, dest, value, pe))
#define SHMEM_OVERLOAD_PLAIN_(NAME, TYPE, OP) \
  SHMEM_OVERLOAD_CTX_(void, NAME, OP, (TYPE * dest, TYPE value, int pe), (dest, value, pe))
#define SHMEM_OVERLOAD_AMO_EXTENDED_(NAME, TYPE, A)                                         \
  SHMEM_OVERLOAD_CTX_(TYPE, NAME, atomic_fetch, (const TYPE *source, int pe), (source, pe)) \
  SHMEM_OVERLOAD_CTX_(void,                                                                 \
                      NAME,                                                                 \
                      atomic_fetch_nbi,                                                     \
                      (TYPE * fetch, const TYPE *source, int pe),                           \
                      (fetch, source, pe))                                                  \
  SHMEM_OVERLOAD_PLAIN_(NAME, TYPE, atomic_set)                                             \
  SHMEM_OVERLOAD_FETCHING_(NAME, TYPE, atomic_swap)
#define SHMEM_OVERLOAD_AMO_(NAME, TYPE, A)                                                      \
  SHMEM_OVERLOAD_CTX_(TYPE,                                                                     \
                      NAME,                                                                     \
                      atomic_compare_swap,                                                      \
                      (TYPE * dest, TYPE cond, TYPE value, int pe),                             \
                      (dest, cond, value, pe))                                                  \
  SHMEM_OVERLOAD_CTX_(void,                                                                     \
                      NAME,                                                                     \
                      atomic_compare_swap_nbi,                                                  \
                      (TYPE * fetch, TYPE * dest, TYPE cond, TYPE value, int pe),               \
                      (fetch, dest, cond, value, pe))                                           \
  SHMEM_OVERLOAD_CTX_(TYPE, NAME, atomic_fetch_inc, (TYPE * dest, int pe), (dest, pe))          \
  SHMEM_OVERLOAD_CTX_(                                                                          \
      void, NAME, atomic_fetch_inc_nbi, (TYPE * fetch, TYPE * dest, int pe), (fetch, dest, pe)) \
  SHMEM_OVERLOAD_CTX_(void, NAME, atomic_inc, (TYPE * dest, int pe), (dest, pe))                \
  SHMEM_OVERLOAD_FETCHING_(NAME, TYPE, atomic_fetch_add)                                        \
  SHMEM_OVERLOAD_PLAIN_(NAME, TYPE, atomic_add)
#define SHMEM_OVERLOAD_AMO_BITS_(NAME, TYPE, A)          \
  SHMEM_OVERLOAD_FETCHING_(NAME, TYPE, atomic_fetch_and) \
  SHMEM_OVERLOAD_FETCHING_(NAME, TYPE, atomic_fetch_or)  \
  SHMEM_OVERLOAD_FETCHING_(NAME, TYPE, atomic_fetch_xor) \
  SHMEM_OVERLOAD_PLAIN_(NAME, TYPE, atomic_and)          \
  SHMEM_OVERLOAD_PLAIN_(NAME, TYPE, atomic_or)           \
  SHMEM_OVERLOAD_PLAIN_(NAME, TYPE, atomic_xor)
SHMEM_TABLE_AMO_EXTENDED_DISTINCT(SHMEM_OVERLOAD_AMO_EXTENDED_, )
SHMEM_TABLE_AMO_DISTINCT(SHMEM_OVERLOAD_AMO_, )
SHMEM_TABLE_AMO_BITS_DISTINCT(SHMEM_OVERLOAD_AMO_BITS_, )

#define SHMEM_OVERLOAD_TEAM_(NAME, TYPE, OP)                                           \
  SHMEM_OVERLOAD_(int,                                                                 \
                  NAME,                                                                \
                  OP,                                                                  \
                  (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems), \
                  (team, dest, source, nelems))
#define SHMEM_OVERLOAD_COLLECTIVE_(NAME, TYPE, A)                                       \
  SHMEM_OVERLOAD_TEAM_(NAME, TYPE, alltoall)                                            \
  SHMEM_OVERLOAD_TEAM_(NAME, TYPE, collect)                                             \
  SHMEM_OVERLOAD_TEAM_(NAME, TYPE, fcollect)                                            \
  SHMEM_OVERLOAD_TEAM_(NAME, TYPE, max_reduce)                                          \
  SHMEM_OVERLOAD_TEAM_(NAME, TYPE, min_reduce)                                          \
  SHMEM_OVERLOAD_(                                                                      \
      int,                                                                              \
      NAME,                                                                             \
      broadcast,                                                                        \
      (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems, int PE_root), \
      (team, dest, source, nelems, PE_root))                                            \
  SHMEM_OVERLOAD_(int,                                                                  \
                  NAME,                                                                 \
                  alltoalls,                                                            \
                  (shmem_team_t team,                                                   \
                   TYPE * dest,                                                         \
                   const TYPE *source,                                                  \
                   ptrdiff_t dst,                                                       \
                   ptrdiff_t sst,                                                       \
                   size_t nelems),                                                      \
                  (team, dest, source, dst, sst, nelems))
#define SHMEM_OVERLOAD_REDUCE_BITS_(NAME, TYPE, A) \
  SHMEM_OVERLOAD_TEAM_(NAME, TYPE, and_reduce)     \
  SHMEM_OVERLOAD_TEAM_(NAME, TYPE, or_reduce)      \
  SHMEM_OVERLOAD_TEAM_(NAME, TYPE, xor_reduce)
#define SHMEM_OVERLOAD_REDUCE_ARITHMETIC_(NAME, TYPE, A) \
  SHMEM_OVERLOAD_TEAM_(NAME, TYPE, sum_reduce)           \
  SHMEM_OVERLOAD_TEAM_(NAME, TYPE, prod_reduce)          \
  SHMEM_OVERLOAD_TEAM_(NAME, TYPE, sum_inscan)           \
  SHMEM_OVERLOAD_TEAM_(NAME, TYPE, sum_exscan)
SHMEM_TABLE_RMA_DISTINCT(SHMEM_OVERLOAD_COLLECTIVE_, )
SHMEM_TABLE_REDUCE_BITS_DISTINCT(SHMEM_OVERLOAD_REDUCE_BITS_, )
SHMEM_TABLE_REDUCE_ARITHMETIC_DISTINCT(SHMEM_OVERLOAD_REDUCE_ARITHMETIC_, )

/* C's complex types, which have the memory layout of C++'s: for headers and programs shared by C
 * and C++. */
#if defined(SHMEM_HAS_C_COMPLEX_)
#  define SHMEM_OVERLOAD_C_COMPLEX_(NAME, TYPE, OP)                                             \
    inline int shmem_##NAME##_##OP(                                                             \
        shmem_team_t team, SHMEM_C_##TYPE *dest, const SHMEM_C_##TYPE *source, size_t nelems) { \
      return shmem_##NAME##_##OP(team,                                                          \
                                 reinterpret_cast<SHMEM_##TYPE *>(dest),                        \
                                 reinterpret_cast<const SHMEM_##TYPE *>(source),                \
                                 nelems);                                                       \
    }                                                                                           \
    SHMEM_OVERLOAD_TEAM_(NAME, SHMEM_C_##TYPE, OP)
#  define SHMEM_OVERLOAD_OLD_C_COMPLEX_(NAME, TYPE, OP)                   \
    inline void shmem_##NAME##_##OP(SHMEM_C_##TYPE *dest,                 \
                                    const SHMEM_C_##TYPE *source,         \
                                    int nreduce,                          \
                                    int PE_start,                         \
                                    int logPE_stride,                     \
                                    int PE_size,                          \
                                    SHMEM_C_##TYPE *pWrk,                 \
                                    long *pSync) {                        \
      shmem_##NAME##_##OP(reinterpret_cast<SHMEM_##TYPE *>(dest),         \
                          reinterpret_cast<const SHMEM_##TYPE *>(source), \
                          nreduce,                                        \
                          PE_start,                                       \
                          logPE_stride,                                   \
                          PE_size,                                        \
                          reinterpret_cast<SHMEM_##TYPE *>(pWrk),         \
                          pSync);                                         \
    }
#  define SHMEM_OVERLOAD_C_COMPLEX_ALL_(NAME, TYPE)       \
    SHMEM_OVERLOAD_C_COMPLEX_(NAME, TYPE, sum_reduce)     \
    SHMEM_OVERLOAD_C_COMPLEX_(NAME, TYPE, prod_reduce)    \
    SHMEM_OVERLOAD_C_COMPLEX_(NAME, TYPE, sum_inscan)     \
    SHMEM_OVERLOAD_C_COMPLEX_(NAME, TYPE, sum_exscan)     \
    SHMEM_OVERLOAD_OLD_C_COMPLEX_(NAME, TYPE, sum_to_all) \
    SHMEM_OVERLOAD_OLD_C_COMPLEX_(NAME, TYPE, prod_to_all)
SHMEM_OVERLOAD_C_COMPLEX_ALL_(complexd, COMPLEXD)
SHMEM_OVERLOAD_C_COMPLEX_ALL_(complexf, COMPLEXF)
#endif
inline int shmem_sync(shmem_team_t team) {
  return shmem_team_sync(team);
}

#define SHMEM_OVERLOAD_WAIT_UNTIL_(NAME, TYPE, A) \
  SHMEM_OVERLOAD_(                                \
      void, NAME, wait_until, (TYPE * ivar, int cmp, TYPE cmp_value), (ivar, cmp, cmp_value))
#define SHMEM_OVERLOAD_TEST_(NAME, TYPE, A) \
  SHMEM_OVERLOAD_(int, NAME, test, (TYPE * ivar, int cmp, TYPE cmp_value), (ivar, cmp, cmp_value))
#define SHMEM_OVERLOAD_OF_MANY_(RESULT, NAME, TYPE, OP)                                      \
  SHMEM_OVERLOAD_(RESULT,                                                                    \
                  NAME,                                                                      \
                  OP,                                                                        \
                  (TYPE * ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value), \
                  (ivars, nelems, status, cmp, cmp_value))                                   \
  SHMEM_OVERLOAD_(                                                                           \
      RESULT,                                                                                \
      NAME,                                                                                  \
      OP##_vector,                                                                           \
      (TYPE * ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values),     \
      (ivars, nelems, status, cmp, cmp_values))
#define SHMEM_OVERLOAD_SOME_(NAME, TYPE, OP)                                                      \
  SHMEM_OVERLOAD_(                                                                                \
      size_t,                                                                                     \
      NAME,                                                                                       \
      OP,                                                                                         \
      (TYPE * ivars, size_t nelems, size_t *indices, const int *status, int cmp, TYPE cmp_value), \
      (ivars, nelems, indices, status, cmp, cmp_value))                                           \
  SHMEM_OVERLOAD_(size_t,                                                                         \
                  NAME,                                                                           \
                  OP##_vector,                                                                    \
                  (TYPE * ivars,                                                                  \
                   size_t nelems,                                                                 \
                   size_t *indices,                                                               \
                   const int *status,                                                             \
                   int cmp,                                                                       \
                   const TYPE *cmp_values),                                                       \
                  (ivars, nelems, indices, status, cmp, cmp_values))
#define SHMEM_OVERLOAD_WAIT_(NAME, TYPE, A)                   \
  SHMEM_OVERLOAD_OF_MANY_(void, NAME, TYPE, wait_until_all)   \
  SHMEM_OVERLOAD_OF_MANY_(size_t, NAME, TYPE, wait_until_any) \
  SHMEM_OVERLOAD_SOME_(NAME, TYPE, wait_until_some)           \
  SHMEM_OVERLOAD_OF_MANY_(int, NAME, TYPE, test_all)          \
  SHMEM_OVERLOAD_OF_MANY_(size_t, NAME, TYPE, test_any)       \
  SHMEM_OVERLOAD_SOME_(NAME, TYPE, test_some)
/* shmem_wait_until of a long exists already, as a deprecated function of the same meaning. */
SHMEM_TABLE_OLD_WAIT_UNTIL(SHMEM_OVERLOAD_WAIT_UNTIL_, )
SHMEM_TABLE_UNSIGNED(SHMEM_OVERLOAD_WAIT_UNTIL_, )
SHMEM_OVERLOAD_WAIT_UNTIL_(int, int, )
SHMEM_OVERLOAD_WAIT_UNTIL_(longlong, long long, )
SHMEM_TABLE_WAIT_DISTINCT(SHMEM_OVERLOAD_TEST_, )
SHMEM_TABLE_WAIT_DISTINCT(SHMEM_OVERLOAD_WAIT_, )

/* Deprecated. */
#define SHMEM_OVERLOAD_OLD_EXTENDED_(NAME, TYPE, A)                                       \
  SHMEM_OVERLOAD_(TYPE, NAME, fetch, (const TYPE *source, int pe), (source, pe))          \
  SHMEM_OVERLOAD_(TYPE, NAME, swap, (TYPE * dest, TYPE value, int pe), (dest, value, pe)) \
  SHMEM_OVERLOAD_(void, NAME, set, (TYPE * dest, TYPE value, int pe), (dest, value, pe))
#define SHMEM_OVERLOAD_OLD_(NAME, TYPE, A)                                                      \
  SHMEM_OVERLOAD_(                                                                              \
      TYPE, NAME, cswap, (TYPE * dest, TYPE cond, TYPE value, int pe), (dest, cond, value, pe)) \
  SHMEM_OVERLOAD_(TYPE, NAME, fadd, (TYPE * dest, TYPE value, int pe), (dest, value, pe))       \
  SHMEM_OVERLOAD_(void, NAME, add, (TYPE * dest, TYPE value, int pe), (dest, value, pe))        \
  SHMEM_OVERLOAD_(TYPE, NAME, finc, (TYPE * dest, int pe), (dest, pe))                          \
  SHMEM_OVERLOAD_(void, NAME, inc, (TYPE * dest, int pe), (dest, pe))
SHMEM_TABLE_OLD_AMO_EXTENDED(SHMEM_OVERLOAD_OLD_EXTENDED_, )
SHMEM_TABLE_OLD_AMO(SHMEM_OVERLOAD_OLD_, )

#endif
