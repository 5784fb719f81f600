/* shmemx.h: extensions of OpenSHMEM, which the specification reserves this header for (section 6).
 * C99, C11, C++11 and up.
 *
 * They are those of Sandia OpenSHMEM that programs and benchmarks use. Most were taken into
 * OpenSHMEM 1.6 without the x: these are the standard calls under their former names. Extensions
 * for GPUs are in shmemg.h. Counting puts, performance counters and heaps that a program provides
 * itself are not offered. */
#ifndef TANADA_COMPAT_SHMEMX_H
#define TANADA_COMPAT_SHMEMX_H

#include "shmem.h"

#include "shmem/begin.h"

#define HAVE_SHMEMX_WTIME

/** The PEs that share memory with this one. */
#define SHMEMX_TEAM_NODE SHMEM_TEAM_SHARED

/** Option of shmem_ctx_create() and hint of shmem_malloc_with_hints(): accepted, without effect. */
#define SHMEMX_CTX_BOUNCE_BUFFER (1L << 31)
#define SHMEMX_MALLOC_NO_BARRIER (1L << 2)

#define SHMEMX_DECLARE_(P)                                                             \
  /** Seconds since some moment in the past, by a clock that never goes back. */       \
  double P##shmemx_wtime(void);                                                        \
  /** The name of the machine, as uname() has it; it is not to be changed or freed. */ \
  char *P##shmemx_nodename(void);

SHMEMX_DECLARE_()
SHMEMX_DECLARE_(p)

#include "shmem/end.h"

/** How a library that has threads of its own numbers them: no call here depends on it. */
static inline void shmemx_register_gettid(uint64_t (*gettid_fn)(void)) {
  (void)gettid_fn;
}

/* Block-strided access (1.6, section 9.6). */
#define SHMEMX_BLOCKS_(NAME, SUFFIX, TYPE, OP)                                     \
  static inline void shmemx_##NAME##OP##SUFFIX(TYPE *dest,                         \
                                               const TYPE *source,                 \
                                               ptrdiff_t dst,                      \
                                               ptrdiff_t sst,                      \
                                               size_t bsize,                       \
                                               size_t nblocks,                     \
                                               int pe) {                           \
    shmem_##NAME##OP##SUFFIX(dest, source, dst, sst, bsize, nblocks, pe);          \
  }                                                                                \
  static inline void shmemx_ctx_##NAME##OP##SUFFIX(shmem_ctx_t ctx,                \
                                                   TYPE *dest,                     \
                                                   const TYPE *source,             \
                                                   ptrdiff_t dst,                  \
                                                   ptrdiff_t sst,                  \
                                                   size_t bsize,                   \
                                                   size_t nblocks,                 \
                                                   int pe) {                       \
    shmem_ctx_##NAME##OP##SUFFIX(ctx, dest, source, dst, sst, bsize, nblocks, pe); \
  }
#define SHMEMX_TYPED_BLOCKS_(NAME, TYPE, A) \
  SHMEMX_BLOCKS_(NAME##_, , TYPE, ibput)    \
  SHMEMX_BLOCKS_(NAME##_, , TYPE, ibget)
#define SHMEMX_SIZED_BLOCKS_(BITS, A) \
  SHMEMX_BLOCKS_(, BITS, void, ibput) \
  SHMEMX_BLOCKS_(, BITS, void, ibget)
SHMEM_TABLE_RMA(SHMEMX_TYPED_BLOCKS_, )
SHMEM_TABLE_BITS(SHMEMX_SIZED_BLOCKS_, )

/* Scans (1.6, section 9.10). */
#define SHMEMX_SCAN_(NAME, TYPE, OP)                                      \
  static inline int shmemx_##NAME##_##OP(                                 \
      shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) { \
    return shmem_##NAME##_##OP(team, dest, source, nelems);               \
  }
#define SHMEMX_SCANS_(NAME, TYPE, A)   \
  SHMEMX_SCAN_(NAME, TYPE, sum_inscan) \
  SHMEMX_SCAN_(NAME, TYPE, sum_exscan)
SHMEM_TABLE_REDUCE_ARITHMETIC(SHMEMX_SCANS_, )

/* Signals (1.6, section 9.9). */
static inline void shmemx_ctx_signal_set(shmem_ctx_t ctx,
                                         uint64_t *sig_addr,
                                         uint64_t signal,
                                         int pe) {
  shmem_ctx_signal_set(ctx, sig_addr, signal, pe);
}
static inline void shmemx_ctx_signal_add(shmem_ctx_t ctx,
                                         uint64_t *sig_addr,
                                         uint64_t signal,
                                         int pe) {
  shmem_ctx_signal_add(ctx, sig_addr, signal, pe);
}

/* The names without a type are those of shmem.h, in C11 and C++; with a context in front, too. */
#define shmemx_ibput(...) shmem_ibput(__VA_ARGS__)
#define shmemx_ibget(...) shmem_ibget(__VA_ARGS__)
#define shmemx_sum_inscan(...) shmem_sum_inscan(__VA_ARGS__)
#define shmemx_sum_exscan(...) shmem_sum_exscan(__VA_ARGS__)
#define shmemx_signal_set(...) shmem_signal_set(__VA_ARGS__)
#define shmemx_signal_add(...) shmem_signal_add(__VA_ARGS__)

#endif
