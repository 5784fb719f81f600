// Put, get and put-with-signal, by type.
#include "products/shmem/rma_define.hpp"

using namespace tanada::shmem;

#define TND_DEFINE_RMA(NAME, TYPE, A)                                                            \
  SHMEM_DEFINE_BOTH(                                                                             \
      void,                                                                                      \
      shmem_##NAME##_p,                                                                          \
      shmem_ctx_##NAME##_p,                                                                      \
      (TYPE * dest, TYPE value, int pe),                                                         \
      put_element(context, call, dest, element<sizeof(TYPE)>::load_from(&value), pe))            \
  SHMEM_DEFINE_BOTH(TYPE,                                                                        \
                    shmem_##NAME##_g,                                                            \
                    shmem_ctx_##NAME##_g,                                                        \
                    (const TYPE *source, int pe),                                                \
                    return value_of<TYPE>(get_element<sizeof(TYPE)>(context, call, source, pe))) \
  TND_DEFINE_PLAIN(shmem_##NAME##_, shmem_ctx_##NAME##_, , TYPE, sizeof(TYPE))                   \
  TND_DEFINE_STRIDED(shmem_##NAME##_, shmem_ctx_##NAME##_, , TYPE, sizeof(TYPE))

SHMEM_TABLE_RMA(TND_DEFINE_RMA, )
