// Atomic operations. Those without a result use the same operation without a result address.
#include "products/shmem/access.hpp"

using namespace tanada::shmem;
using enum tanada::seams::fabric_atomic;

#define TND_DEFINE_FETCHING(NAME, TYPE, OP, KIND)                                      \
  SHMEM_DEFINE_BOTH(TYPE,                                                              \
                    shmem_##NAME##_atomic_##OP,                                        \
                    shmem_ctx_##NAME##_atomic_##OP,                                    \
                    (TYPE * dest, TYPE value, int pe),                                 \
                    return fetch_atomic<TYPE>(context, call, dest, {KIND, value}, pe)) \
  SHMEM_DEFINE_BOTH(void,                                                              \
                    shmem_##NAME##_atomic_##OP##_nbi,                                  \
                    shmem_ctx_##NAME##_atomic_##OP##_nbi,                              \
                    (TYPE * fetch, TYPE * dest, TYPE value, int pe),                   \
                    fetch_atomic_nbi<TYPE>(context, call, fetch, dest, {KIND, value}, pe))
#define TND_DEFINE_CHANGING(NAME, TYPE, OP, KIND)      \
  SHMEM_DEFINE_BOTH(void,                              \
                    shmem_##NAME##_atomic_##OP,        \
                    shmem_ctx_##NAME##_atomic_##OP,    \
                    (TYPE * dest, TYPE value, int pe), \
                    update_atomic<TYPE>(context, call, dest, {KIND, value}, pe))

#define TND_DEFINE_AMO_EXTENDED(NAME, TYPE, A)                                                     \
  SHMEM_DEFINE_BOTH(                                                                               \
      TYPE,                                                                                        \
      shmem_##NAME##_atomic_fetch,                                                                 \
      shmem_ctx_##NAME##_atomic_fetch,                                                             \
      (const TYPE *source, int pe),                                                                \
      return fetch_atomic<TYPE>(context, call, source, {tanada::seams::fabric_atomic::fetch}, pe)) \
  SHMEM_DEFINE_BOTH(void,                                                                          \
                    shmem_##NAME##_atomic_fetch_nbi,                                               \
                    shmem_ctx_##NAME##_atomic_fetch_nbi,                                           \
                    (TYPE * fetch, const TYPE *source, int pe),                                    \
                    fetch_atomic_nbi<TYPE>(                                                        \
                        context, call, fetch, source, {tanada::seams::fabric_atomic::fetch}, pe))  \
  TND_DEFINE_FETCHING(NAME, TYPE, swap, swap)                                                      \
  TND_DEFINE_CHANGING(NAME, TYPE, set, swap)

#define TND_DEFINE_AMO(NAME, TYPE, A)                                                      \
  SHMEM_DEFINE_BOTH(                                                                       \
      TYPE,                                                                                \
      shmem_##NAME##_atomic_compare_swap,                                                  \
      shmem_ctx_##NAME##_atomic_compare_swap,                                              \
      (TYPE * dest, TYPE cond, TYPE value, int pe),                                        \
      return fetch_atomic<TYPE>(context, call, dest, {compare_swap, value, cond}, pe))     \
  SHMEM_DEFINE_BOTH(                                                                       \
      void,                                                                                \
      shmem_##NAME##_atomic_compare_swap_nbi,                                              \
      shmem_ctx_##NAME##_atomic_compare_swap_nbi,                                          \
      (TYPE * fetch, TYPE * dest, TYPE cond, TYPE value, int pe),                          \
      fetch_atomic_nbi<TYPE>(context, call, fetch, dest, {compare_swap, value, cond}, pe)) \
  SHMEM_DEFINE_BOTH(TYPE,                                                                  \
                    shmem_##NAME##_atomic_fetch_inc,                                       \
                    shmem_ctx_##NAME##_atomic_fetch_inc,                                   \
                    (TYPE * dest, int pe),                                                 \
                    return fetch_atomic<TYPE>(context, call, dest, {add, 1}, pe))          \
  SHMEM_DEFINE_BOTH(void,                                                                  \
                    shmem_##NAME##_atomic_fetch_inc_nbi,                                   \
                    shmem_ctx_##NAME##_atomic_fetch_inc_nbi,                               \
                    (TYPE * fetch, TYPE * dest, int pe),                                   \
                    fetch_atomic_nbi<TYPE>(context, call, fetch, dest, {add, 1}, pe))      \
  SHMEM_DEFINE_BOTH(void,                                                                  \
                    shmem_##NAME##_atomic_inc,                                             \
                    shmem_ctx_##NAME##_atomic_inc,                                         \
                    (TYPE * dest, int pe),                                                 \
                    update_atomic<TYPE>(context, call, dest, {add, 1}, pe))                \
  TND_DEFINE_FETCHING(NAME, TYPE, fetch_add, add)                                          \
  TND_DEFINE_CHANGING(NAME, TYPE, add, add)

#define TND_DEFINE_AMO_BITS(NAME, TYPE, A)            \
  TND_DEFINE_FETCHING(NAME, TYPE, fetch_and, bit_and) \
  TND_DEFINE_FETCHING(NAME, TYPE, fetch_or, bit_or)   \
  TND_DEFINE_FETCHING(NAME, TYPE, fetch_xor, bit_xor) \
  TND_DEFINE_CHANGING(NAME, TYPE, and, bit_and)       \
  TND_DEFINE_CHANGING(NAME, TYPE, or, bit_or)         \
  TND_DEFINE_CHANGING(NAME, TYPE, xor, bit_xor)

SHMEM_TABLE_AMO_EXTENDED(TND_DEFINE_AMO_EXTENDED, )
SHMEM_TABLE_AMO(TND_DEFINE_AMO, )
SHMEM_TABLE_AMO_BITS(TND_DEFINE_AMO_BITS, )

// Deprecated.
#define TND_DEFINE_OLD(RESULT, NAME, PARAMETERS, ...) \
  SHMEM_DEFINE(RESULT, NAME, PARAMETERS, {            \
    auto &context = context_of(call);                 \
    __VA_ARGS__;                                      \
  })
#define TND_DEFINE_OLD_EXTENDED(NAME, TYPE, A)                                                     \
  TND_DEFINE_OLD(                                                                                  \
      TYPE,                                                                                        \
      shmem_##NAME##_fetch,                                                                        \
      (const TYPE *source, int pe),                                                                \
      return fetch_atomic<TYPE>(context, call, source, {tanada::seams::fabric_atomic::fetch}, pe)) \
  TND_DEFINE_OLD(TYPE,                                                                             \
                 shmem_##NAME##_swap,                                                              \
                 (TYPE * dest, TYPE value, int pe),                                                \
                 return fetch_atomic<TYPE>(context, call, dest, {swap, value}, pe))                \
  TND_DEFINE_OLD(void,                                                                             \
                 shmem_##NAME##_set,                                                               \
                 (TYPE * dest, TYPE value, int pe),                                                \
                 update_atomic<TYPE>(context, call, dest, {swap, value}, pe))
#define TND_DEFINE_OLD_AMO(NAME, TYPE, A)                                                         \
  TND_DEFINE_OLD(TYPE,                                                                            \
                 shmem_##NAME##_cswap,                                                            \
                 (TYPE * dest, TYPE cond, TYPE value, int pe),                                    \
                 return fetch_atomic<TYPE>(context, call, dest, {compare_swap, value, cond}, pe)) \
  TND_DEFINE_OLD(TYPE,                                                                            \
                 shmem_##NAME##_fadd,                                                             \
                 (TYPE * dest, TYPE value, int pe),                                               \
                 return fetch_atomic<TYPE>(context, call, dest, {add, value}, pe))                \
  TND_DEFINE_OLD(TYPE,                                                                            \
                 shmem_##NAME##_finc,                                                             \
                 (TYPE * dest, int pe),                                                           \
                 return fetch_atomic<TYPE>(context, call, dest, {add, 1}, pe))                    \
  TND_DEFINE_OLD(void,                                                                            \
                 shmem_##NAME##_add,                                                              \
                 (TYPE * dest, TYPE value, int pe),                                               \
                 update_atomic<TYPE>(context, call, dest, {add, value}, pe))                      \
  TND_DEFINE_OLD(void,                                                                            \
                 shmem_##NAME##_inc,                                                              \
                 (TYPE * dest, int pe),                                                           \
                 update_atomic<TYPE>(context, call, dest, {add, 1}, pe))

SHMEM_TABLE_OLD_AMO_EXTENDED(TND_DEFINE_OLD_EXTENDED, )
SHMEM_TABLE_OLD_AMO(TND_DEFINE_OLD_AMO, )
