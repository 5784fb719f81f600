// Put, get and put-with-signal for untyped elements.
#include "products/shmem/rma_define.hpp"

using namespace tanada::shmem;

#define TND_DEFINE_BITS(BITS, A)                               \
  TND_DEFINE_PLAIN(shmem_, shmem_ctx_, BITS, void, (BITS) / 8) \
  TND_DEFINE_STRIDED(shmem_, shmem_ctx_, BITS, void, (BITS) / 8)

SHMEM_TABLE_BITS(TND_DEFINE_BITS, )
TND_DEFINE_PLAIN(shmem_, shmem_ctx_, mem, void, 1)
