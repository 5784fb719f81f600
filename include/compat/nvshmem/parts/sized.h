// parts/sized.h: put and get of elements of 8 to 128 bits, whatever their type. Not for direct
// inclusion.
#pragma once

#define NVSHMEM_SIZED_(QUALIFIER, NAME, TYPED, TYPE)                                 \
  QUALIFIER void NAME(void *dest, const void *source, size_t nelems, int pe) {       \
    TYPED(static_cast<TYPE *>(dest), static_cast<const TYPE *>(source), nelems, pe); \
  }
#define NVSHMEM_SIZED_ROWS_(QUALIFIER, NAME, TYPED, TYPE)                                      \
  QUALIFIER void NAME(                                                                         \
      void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe) {   \
    TYPED(static_cast<TYPE *>(dest), static_cast<const TYPE *>(source), dst, sst, nelems, pe); \
  }
#define NVSHMEM_SIZED_SIGNAL_(QUALIFIER, NAME, TYPED, TYPE) \
  QUALIFIER void NAME(void *dest,                           \
                      const void *source,                   \
                      size_t nelems,                        \
                      uint64_t *sig_addr,                   \
                      uint64_t signal,                      \
                      int sig_op,                           \
                      int pe) {                             \
    TYPED(static_cast<TYPE *>(dest),                        \
          static_cast<const TYPE *>(source),                \
          nelems,                                           \
          sig_addr,                                         \
          signal,                                           \
          sig_op,                                           \
          pe);                                              \
  }

// P: nvshmem or nvshmemx; S: the suffix of the group.
#define NVSHMEM_SIZED_FORMS_(QUALIFIER, P, BITS, TYPED, TYPE, S)                                 \
  NVSHMEM_SIZED_(QUALIFIER, P##_put##BITS##S, P##_##TYPED##_put##S, TYPE)                        \
  NVSHMEM_SIZED_(QUALIFIER, P##_get##BITS##S, P##_##TYPED##_get##S, TYPE)                        \
  NVSHMEM_SIZED_(QUALIFIER, P##_put##BITS##_nbi##S, P##_##TYPED##_put_nbi##S, TYPE)              \
  NVSHMEM_SIZED_(QUALIFIER, P##_get##BITS##_nbi##S, P##_##TYPED##_get_nbi##S, TYPE)              \
  NVSHMEM_SIZED_ROWS_(QUALIFIER, P##_iput##BITS##S, P##_##TYPED##_iput##S, TYPE)                 \
  NVSHMEM_SIZED_ROWS_(QUALIFIER, P##_iget##BITS##S, P##_##TYPED##_iget##S, TYPE)                 \
  NVSHMEM_SIZED_SIGNAL_(QUALIFIER, P##_put##BITS##_signal##S, P##_##TYPED##_put_signal##S, TYPE) \
  NVSHMEM_SIZED_SIGNAL_(                                                                         \
      QUALIFIER, P##_put##BITS##_signal_nbi##S, P##_##TYPED##_put_signal_nbi##S, TYPE)
#define NVSHMEM_SIZED_ALL_(BITS, TYPED, TYPE)                               \
  NVSHMEM_SIZED_FORMS_(NVSHMEM_BOTH_, nvshmem, BITS, TYPED, TYPE, )         \
  NVSHMEM_SIZED_FORMS_(NVSHMEM_DEVICE_, nvshmemx, BITS, TYPED, TYPE, _warp) \
  NVSHMEM_SIZED_FORMS_(NVSHMEM_DEVICE_, nvshmemx, BITS, TYPED, TYPE, _block)

NVSHMEM_SIZED_ALL_(8, uint8, uint8_t)
NVSHMEM_SIZED_ALL_(16, uint16, uint16_t)
NVSHMEM_SIZED_ALL_(32, uint32, uint32_t)
NVSHMEM_SIZED_ALL_(64, uint64, uint64_t)
NVSHMEM_SIZED_ALL_(128, double2, double2)

#undef NVSHMEM_SIZED_
#undef NVSHMEM_SIZED_ROWS_
#undef NVSHMEM_SIZED_SIGNAL_
#undef NVSHMEM_SIZED_FORMS_
#undef NVSHMEM_SIZED_ALL_
