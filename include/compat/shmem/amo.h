/* shmem/amo.h: atomic operations on one value of a PE. C99 and C++11. */
#ifndef TANADA_COMPAT_SHMEM_AMO_H
#define TANADA_COMPAT_SHMEM_AMO_H

#include "constants.h"
#include "types.h"

#include "begin.h"

/* Atomic with respect to one another on one value, for all PEs, contexts and types of one width,
 * but not with respect to plain stores. Fetching calls return the old value; _nbi ones store it in
 * `fetch` by the next quiet. The other calls may still be in flight when they return. 9.8. */
#define SHMEM_DECLARE_AMO_EXTENDED_(NAME, TYPE, P)                                      \
  TYPE P##shmem_##NAME##_atomic_fetch(const TYPE *source, int pe);                      \
  TYPE P##shmem_ctx_##NAME##_atomic_fetch(shmem_ctx_t ctx, const TYPE *source, int pe); \
  void P##shmem_##NAME##_atomic_fetch_nbi(TYPE *fetch, const TYPE *source, int pe);     \
  void P##shmem_ctx_##NAME##_atomic_fetch_nbi(                                          \
      shmem_ctx_t ctx, TYPE *fetch, const TYPE *source, int pe);                        \
  SHMEM_DECLARE_AMO_FETCHING_(NAME, TYPE, P, swap)                                      \
  SHMEM_DECLARE_AMO_PLAIN_(NAME, TYPE, P, set)

#define SHMEM_DECLARE_AMO_(NAME, TYPE, P)                                                \
  TYPE P##shmem_##NAME##_atomic_compare_swap(TYPE *dest, TYPE cond, TYPE value, int pe); \
  TYPE P##shmem_ctx_##NAME##_atomic_compare_swap(                                        \
      shmem_ctx_t ctx, TYPE *dest, TYPE cond, TYPE value, int pe);                       \
  void P##shmem_##NAME##_atomic_compare_swap_nbi(                                        \
      TYPE *fetch, TYPE *dest, TYPE cond, TYPE value, int pe);                           \
  void P##shmem_ctx_##NAME##_atomic_compare_swap_nbi(                                    \
      shmem_ctx_t ctx, TYPE *fetch, TYPE *dest, TYPE cond, TYPE value, int pe);          \
  TYPE P##shmem_##NAME##_atomic_fetch_inc(TYPE *dest, int pe);                           \
  TYPE P##shmem_ctx_##NAME##_atomic_fetch_inc(shmem_ctx_t ctx, TYPE *dest, int pe);      \
  void P##shmem_##NAME##_atomic_fetch_inc_nbi(TYPE *fetch, TYPE *dest, int pe);          \
  void P##shmem_ctx_##NAME##_atomic_fetch_inc_nbi(                                       \
      shmem_ctx_t ctx, TYPE *fetch, TYPE *dest, int pe);                                 \
  void P##shmem_##NAME##_atomic_inc(TYPE *dest, int pe);                                 \
  void P##shmem_ctx_##NAME##_atomic_inc(shmem_ctx_t ctx, TYPE *dest, int pe);            \
  SHMEM_DECLARE_AMO_FETCHING_(NAME, TYPE, P, fetch_add)                                  \
  SHMEM_DECLARE_AMO_PLAIN_(NAME, TYPE, P, add)

#define SHMEM_DECLARE_AMO_BITS_(NAME, TYPE, P)          \
  SHMEM_DECLARE_AMO_FETCHING_(NAME, TYPE, P, fetch_and) \
  SHMEM_DECLARE_AMO_FETCHING_(NAME, TYPE, P, fetch_or)  \
  SHMEM_DECLARE_AMO_FETCHING_(NAME, TYPE, P, fetch_xor) \
  SHMEM_DECLARE_AMO_PLAIN_(NAME, TYPE, P, and)          \
  SHMEM_DECLARE_AMO_PLAIN_(NAME, TYPE, P, or)           \
  SHMEM_DECLARE_AMO_PLAIN_(NAME, TYPE, P, xor)

#define SHMEM_DECLARE_AMO_FETCHING_(NAME, TYPE, P, OP)                                     \
  TYPE P##shmem_##NAME##_atomic_##OP(TYPE *dest, TYPE value, int pe);                      \
  TYPE P##shmem_ctx_##NAME##_atomic_##OP(shmem_ctx_t ctx, TYPE *dest, TYPE value, int pe); \
  void P##shmem_##NAME##_atomic_##OP##_nbi(TYPE *fetch, TYPE *dest, TYPE value, int pe);   \
  void P##shmem_ctx_##NAME##_atomic_##OP##_nbi(                                            \
      shmem_ctx_t ctx, TYPE *fetch, TYPE *dest, TYPE value, int pe);

#define SHMEM_DECLARE_AMO_PLAIN_(NAME, TYPE, P, OP)                   \
  void P##shmem_##NAME##_atomic_##OP(TYPE *dest, TYPE value, int pe); \
  void P##shmem_ctx_##NAME##_atomic_##OP(shmem_ctx_t ctx, TYPE *dest, TYPE value, int pe);

#define SHMEM_DECLARE_OLD_AMO_EXTENDED_(NAME, TYPE, P)                    \
  SHMEM_OLD_ TYPE P##shmem_##NAME##_fetch(const TYPE *source, int pe);    \
  SHMEM_OLD_ TYPE P##shmem_##NAME##_swap(TYPE *dest, TYPE value, int pe); \
  SHMEM_OLD_ void P##shmem_##NAME##_set(TYPE *dest, TYPE value, int pe);

#define SHMEM_DECLARE_OLD_AMO_(NAME, TYPE, P)                                         \
  SHMEM_OLD_ TYPE P##shmem_##NAME##_cswap(TYPE *dest, TYPE cond, TYPE value, int pe); \
  SHMEM_OLD_ TYPE P##shmem_##NAME##_fadd(TYPE *dest, TYPE value, int pe);             \
  SHMEM_OLD_ TYPE P##shmem_##NAME##_finc(TYPE *dest, int pe);                         \
  SHMEM_OLD_ void P##shmem_##NAME##_add(TYPE *dest, TYPE value, int pe);              \
  SHMEM_OLD_ void P##shmem_##NAME##_inc(TYPE *dest, int pe);

SHMEM_TABLE_AMO_EXTENDED(SHMEM_DECLARE_AMO_EXTENDED_, )
SHMEM_TABLE_AMO_EXTENDED(SHMEM_DECLARE_AMO_EXTENDED_, p)
SHMEM_TABLE_AMO(SHMEM_DECLARE_AMO_, )
SHMEM_TABLE_AMO(SHMEM_DECLARE_AMO_, p)
SHMEM_TABLE_AMO_BITS(SHMEM_DECLARE_AMO_BITS_, )
SHMEM_TABLE_AMO_BITS(SHMEM_DECLARE_AMO_BITS_, p)
SHMEM_TABLE_OLD_AMO_EXTENDED(SHMEM_DECLARE_OLD_AMO_EXTENDED_, )
SHMEM_TABLE_OLD_AMO_EXTENDED(SHMEM_DECLARE_OLD_AMO_EXTENDED_, p)
SHMEM_TABLE_OLD_AMO(SHMEM_DECLARE_OLD_AMO_, )
SHMEM_TABLE_OLD_AMO(SHMEM_DECLARE_OLD_AMO_, p)

#include "end.h"

#endif
