/* shmem/generics.h: type-generic calls for C11. The type of an argument selects the call. A
 * context may be the first argument where the specification allows it. C++ has overloads.h
 * instead; older C has no generic calls. */
#ifndef TANADA_COMPAT_SHMEM_GENERICS_H
#define TANADA_COMPAT_SHMEM_GENERICS_H

#include "types.h"

/* Selected if no type matches; its name appears in the compiler's message. */
struct shmem_no_such_call_for_this_type_;
#define SHMEM_NO_CALL_ ((struct shmem_no_such_call_for_this_type_ *)0)

#define SHMEM_FIRST_(FIRST, ...) FIRST
#define SHMEM_SECOND_(FIRST, SECOND, ...) SECOND
#define SHMEM_TO_(NAME, TYPE, OP) , TYPE * : shmem_##NAME##_##OP
#define SHMEM_CTX_TO_(NAME, TYPE, OP) , TYPE * : shmem_ctx_##NAME##_##OP
#define SHMEM_FROM_(NAME, TYPE, OP) \
  , TYPE * : shmem_##NAME##_##OP, const TYPE * : shmem_##NAME##_##OP
#define SHMEM_CTX_FROM_(NAME, TYPE, OP) \
  , TYPE * : shmem_ctx_##NAME##_##OP, const TYPE * : shmem_ctx_##NAME##_##OP

/* Selection by the first argument; by the second, after a team; by the first, or by the second
 * after a context. */
#define SHMEM_BY_FIRST_(TABLE, OP, ...) \
  _Generic((SHMEM_FIRST_(__VA_ARGS__, 0))TABLE(SHMEM_TO_, OP))(__VA_ARGS__)
#define SHMEM_BY_FIRST_CONST_(TABLE, OP, ...) \
  _Generic((SHMEM_FIRST_(__VA_ARGS__, 0))TABLE(SHMEM_FROM_, OP))(__VA_ARGS__)
#define SHMEM_BY_SECOND_(TABLE, OP, ...) \
  _Generic((SHMEM_SECOND_(__VA_ARGS__, 0, 0))TABLE(SHMEM_TO_, OP))(__VA_ARGS__)
#define SHMEM_BY_CTX_(TABLE, OP, ...)                                                   \
  _Generic((SHMEM_FIRST_(__VA_ARGS__, 0))TABLE(SHMEM_TO_, OP),                          \
      shmem_ctx_t: _Generic((SHMEM_SECOND_(__VA_ARGS__, 0, 0))TABLE(SHMEM_CTX_TO_, OP), \
          default: SHMEM_NO_CALL_))(__VA_ARGS__)
#define SHMEM_BY_CTX_CONST_(TABLE, OP, ...)                                               \
  _Generic((SHMEM_FIRST_(__VA_ARGS__, 0))TABLE(SHMEM_FROM_, OP),                          \
      shmem_ctx_t: _Generic((SHMEM_SECOND_(__VA_ARGS__, 0, 0))TABLE(SHMEM_CTX_FROM_, OP), \
          default: SHMEM_NO_CALL_))(__VA_ARGS__)

/* Memory access. */
#define shmem_p(...) SHMEM_BY_CTX_(SHMEM_TABLE_RMA_DISTINCT, p, __VA_ARGS__)
#define shmem_g(...) SHMEM_BY_CTX_CONST_(SHMEM_TABLE_RMA_DISTINCT, g, __VA_ARGS__)
#define shmem_put(...) SHMEM_BY_CTX_(SHMEM_TABLE_RMA_DISTINCT, put, __VA_ARGS__)
#define shmem_get(...) SHMEM_BY_CTX_(SHMEM_TABLE_RMA_DISTINCT, get, __VA_ARGS__)
#define shmem_iput(...) SHMEM_BY_CTX_(SHMEM_TABLE_RMA_DISTINCT, iput, __VA_ARGS__)
#define shmem_iget(...) SHMEM_BY_CTX_(SHMEM_TABLE_RMA_DISTINCT, iget, __VA_ARGS__)
#define shmem_ibput(...) SHMEM_BY_CTX_(SHMEM_TABLE_RMA_DISTINCT, ibput, __VA_ARGS__)
#define shmem_ibget(...) SHMEM_BY_CTX_(SHMEM_TABLE_RMA_DISTINCT, ibget, __VA_ARGS__)
#define shmem_put_nbi(...) SHMEM_BY_CTX_(SHMEM_TABLE_RMA_DISTINCT, put_nbi, __VA_ARGS__)
#define shmem_get_nbi(...) SHMEM_BY_CTX_(SHMEM_TABLE_RMA_DISTINCT, get_nbi, __VA_ARGS__)
#define shmem_put_signal(...) SHMEM_BY_CTX_(SHMEM_TABLE_RMA_DISTINCT, put_signal, __VA_ARGS__)
#define shmem_put_signal_nbi(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_RMA_DISTINCT, put_signal_nbi, __VA_ARGS__)

/* A signal has one type: only the context is optional. */
#define shmem_signal_set(...)              \
  _Generic((SHMEM_FIRST_(__VA_ARGS__, 0)), \
      shmem_ctx_t: shmem_ctx_signal_set,   \
      default: shmem_signal_set)(__VA_ARGS__)
#define shmem_signal_add(...)              \
  _Generic((SHMEM_FIRST_(__VA_ARGS__, 0)), \
      shmem_ctx_t: shmem_ctx_signal_add,   \
      default: shmem_signal_add)(__VA_ARGS__)

/* Atomics. */
#define shmem_atomic_fetch(...) \
  SHMEM_BY_CTX_CONST_(SHMEM_TABLE_AMO_EXTENDED_DISTINCT, atomic_fetch, __VA_ARGS__)
#define shmem_atomic_set(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_EXTENDED_DISTINCT, atomic_set, __VA_ARGS__)
#define shmem_atomic_swap(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_EXTENDED_DISTINCT, atomic_swap, __VA_ARGS__)
#define shmem_atomic_compare_swap(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_DISTINCT, atomic_compare_swap, __VA_ARGS__)
#define shmem_atomic_fetch_inc(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_DISTINCT, atomic_fetch_inc, __VA_ARGS__)
#define shmem_atomic_inc(...) SHMEM_BY_CTX_(SHMEM_TABLE_AMO_DISTINCT, atomic_inc, __VA_ARGS__)
#define shmem_atomic_fetch_add(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_DISTINCT, atomic_fetch_add, __VA_ARGS__)
#define shmem_atomic_add(...) SHMEM_BY_CTX_(SHMEM_TABLE_AMO_DISTINCT, atomic_add, __VA_ARGS__)
#define shmem_atomic_fetch_and(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_BITS_DISTINCT, atomic_fetch_and, __VA_ARGS__)
#define shmem_atomic_and(...) SHMEM_BY_CTX_(SHMEM_TABLE_AMO_BITS_DISTINCT, atomic_and, __VA_ARGS__)
#define shmem_atomic_fetch_or(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_BITS_DISTINCT, atomic_fetch_or, __VA_ARGS__)
#define shmem_atomic_or(...) SHMEM_BY_CTX_(SHMEM_TABLE_AMO_BITS_DISTINCT, atomic_or, __VA_ARGS__)
#define shmem_atomic_fetch_xor(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_BITS_DISTINCT, atomic_fetch_xor, __VA_ARGS__)
#define shmem_atomic_xor(...) SHMEM_BY_CTX_(SHMEM_TABLE_AMO_BITS_DISTINCT, atomic_xor, __VA_ARGS__)
#define shmem_atomic_fetch_nbi(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_EXTENDED_DISTINCT, atomic_fetch_nbi, __VA_ARGS__)
#define shmem_atomic_swap_nbi(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_EXTENDED_DISTINCT, atomic_swap_nbi, __VA_ARGS__)
#define shmem_atomic_compare_swap_nbi(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_DISTINCT, atomic_compare_swap_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_inc_nbi(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_DISTINCT, atomic_fetch_inc_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_add_nbi(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_DISTINCT, atomic_fetch_add_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_and_nbi(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_BITS_DISTINCT, atomic_fetch_and_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_or_nbi(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_BITS_DISTINCT, atomic_fetch_or_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_xor_nbi(...) \
  SHMEM_BY_CTX_(SHMEM_TABLE_AMO_BITS_DISTINCT, atomic_fetch_xor_nbi, __VA_ARGS__)

/* Collectives. The deprecated shmem_sync takes an active set, the generic one a team. */
#define shmem_sync(...)                                                                         \
  _Generic((SHMEM_FIRST_(__VA_ARGS__, 0)), shmem_team_t: shmem_team_sync, default: shmem_sync)( \
      __VA_ARGS__)
#define shmem_alltoall(...) SHMEM_BY_SECOND_(SHMEM_TABLE_RMA_DISTINCT, alltoall, __VA_ARGS__)
#define shmem_alltoalls(...) SHMEM_BY_SECOND_(SHMEM_TABLE_RMA_DISTINCT, alltoalls, __VA_ARGS__)
#define shmem_broadcast(...) SHMEM_BY_SECOND_(SHMEM_TABLE_RMA_DISTINCT, broadcast, __VA_ARGS__)
#define shmem_collect(...) SHMEM_BY_SECOND_(SHMEM_TABLE_RMA_DISTINCT, collect, __VA_ARGS__)
#define shmem_fcollect(...) SHMEM_BY_SECOND_(SHMEM_TABLE_RMA_DISTINCT, fcollect, __VA_ARGS__)
#define shmem_max_reduce(...) SHMEM_BY_SECOND_(SHMEM_TABLE_RMA_DISTINCT, max_reduce, __VA_ARGS__)
#define shmem_min_reduce(...) SHMEM_BY_SECOND_(SHMEM_TABLE_RMA_DISTINCT, min_reduce, __VA_ARGS__)
#define shmem_and_reduce(...) \
  SHMEM_BY_SECOND_(SHMEM_TABLE_REDUCE_BITS_DISTINCT, and_reduce, __VA_ARGS__)
#define shmem_or_reduce(...) \
  SHMEM_BY_SECOND_(SHMEM_TABLE_REDUCE_BITS_DISTINCT, or_reduce, __VA_ARGS__)
#define shmem_xor_reduce(...) \
  SHMEM_BY_SECOND_(SHMEM_TABLE_REDUCE_BITS_DISTINCT, xor_reduce, __VA_ARGS__)
#define shmem_sum_reduce(...) \
  SHMEM_BY_SECOND_(SHMEM_TABLE_REDUCE_ARITHMETIC_DISTINCT, sum_reduce, __VA_ARGS__)
#define shmem_prod_reduce(...) \
  SHMEM_BY_SECOND_(SHMEM_TABLE_REDUCE_ARITHMETIC_DISTINCT, prod_reduce, __VA_ARGS__)
#define shmem_sum_inscan(...) \
  SHMEM_BY_SECOND_(SHMEM_TABLE_REDUCE_ARITHMETIC_DISTINCT, sum_inscan, __VA_ARGS__)
#define shmem_sum_exscan(...) \
  SHMEM_BY_SECOND_(SHMEM_TABLE_REDUCE_ARITHMETIC_DISTINCT, sum_exscan, __VA_ARGS__)

/* Waiting. */
#define shmem_wait_until(...) SHMEM_BY_FIRST_(SHMEM_TABLE_WAIT_DISTINCT, wait_until, __VA_ARGS__)
#define shmem_test(...) SHMEM_BY_FIRST_(SHMEM_TABLE_WAIT_DISTINCT, test, __VA_ARGS__)
#define shmem_wait_until_all(...) \
  SHMEM_BY_FIRST_(SHMEM_TABLE_WAIT_DISTINCT, wait_until_all, __VA_ARGS__)
#define shmem_wait_until_any(...) \
  SHMEM_BY_FIRST_(SHMEM_TABLE_WAIT_DISTINCT, wait_until_any, __VA_ARGS__)
#define shmem_wait_until_some(...) \
  SHMEM_BY_FIRST_(SHMEM_TABLE_WAIT_DISTINCT, wait_until_some, __VA_ARGS__)
#define shmem_wait_until_all_vector(...) \
  SHMEM_BY_FIRST_(SHMEM_TABLE_WAIT_DISTINCT, wait_until_all_vector, __VA_ARGS__)
#define shmem_wait_until_any_vector(...) \
  SHMEM_BY_FIRST_(SHMEM_TABLE_WAIT_DISTINCT, wait_until_any_vector, __VA_ARGS__)
#define shmem_wait_until_some_vector(...) \
  SHMEM_BY_FIRST_(SHMEM_TABLE_WAIT_DISTINCT, wait_until_some_vector, __VA_ARGS__)
#define shmem_test_all(...) SHMEM_BY_FIRST_(SHMEM_TABLE_WAIT_DISTINCT, test_all, __VA_ARGS__)
#define shmem_test_any(...) SHMEM_BY_FIRST_(SHMEM_TABLE_WAIT_DISTINCT, test_any, __VA_ARGS__)
#define shmem_test_some(...) SHMEM_BY_FIRST_(SHMEM_TABLE_WAIT_DISTINCT, test_some, __VA_ARGS__)
#define shmem_test_all_vector(...) \
  SHMEM_BY_FIRST_(SHMEM_TABLE_WAIT_DISTINCT, test_all_vector, __VA_ARGS__)
#define shmem_test_any_vector(...) \
  SHMEM_BY_FIRST_(SHMEM_TABLE_WAIT_DISTINCT, test_any_vector, __VA_ARGS__)
#define shmem_test_some_vector(...) \
  SHMEM_BY_FIRST_(SHMEM_TABLE_WAIT_DISTINCT, test_some_vector, __VA_ARGS__)

/* Deprecated. */
#define shmem_fetch(...) SHMEM_BY_FIRST_CONST_(SHMEM_TABLE_OLD_AMO_EXTENDED, fetch, __VA_ARGS__)
#define shmem_set(...) SHMEM_BY_FIRST_(SHMEM_TABLE_OLD_AMO_EXTENDED, set, __VA_ARGS__)
#define shmem_swap(...) SHMEM_BY_FIRST_(SHMEM_TABLE_OLD_AMO_EXTENDED, swap, __VA_ARGS__)
#define shmem_cswap(...) SHMEM_BY_FIRST_(SHMEM_TABLE_OLD_AMO, cswap, __VA_ARGS__)
#define shmem_fadd(...) SHMEM_BY_FIRST_(SHMEM_TABLE_OLD_AMO, fadd, __VA_ARGS__)
#define shmem_finc(...) SHMEM_BY_FIRST_(SHMEM_TABLE_OLD_AMO, finc, __VA_ARGS__)
#define shmem_add(...) SHMEM_BY_FIRST_(SHMEM_TABLE_OLD_AMO, add, __VA_ARGS__)
#define shmem_inc(...) SHMEM_BY_FIRST_(SHMEM_TABLE_OLD_AMO, inc, __VA_ARGS__)

#endif
