// products/shmem/rma_define.hpp: macros for the calls that exist by type, by width in bits, and for
// bytes: NAME put SUFFIX, with elements of UNIT bytes.
#pragma once

#include "products/shmem/access.hpp"

namespace tanada::shmem {

template <class T>
inline T value_of(const element<sizeof(T)> &source) noexcept {
  T value;
  std::memcpy(&value, &source, sizeof(T));
  return value;
}

}  // namespace tanada::shmem

#define TND_DEFINE_PLAIN(NAME, CTX_NAME, SUFFIX, TYPE, UNIT)                                  \
  SHMEM_DEFINE_BOTH(void,                                                                     \
                    NAME##put##SUFFIX,                                                        \
                    CTX_NAME##put##SUFFIX,                                                    \
                    (TYPE * dest, const TYPE *source, size_t nelems, int pe),                 \
                    put<UNIT>(context, call, dest, source, nelems, pe))                       \
  SHMEM_DEFINE_BOTH(void,                                                                     \
                    NAME##get##SUFFIX,                                                        \
                    CTX_NAME##get##SUFFIX,                                                    \
                    (TYPE * dest, const TYPE *source, size_t nelems, int pe),                 \
                    get<UNIT>(context, call, dest, source, nelems, pe))                       \
  SHMEM_DEFINE_BOTH(void,                                                                     \
                    NAME##put##SUFFIX##_nbi,                                                  \
                    CTX_NAME##put##SUFFIX##_nbi,                                              \
                    (TYPE * dest, const TYPE *source, size_t nelems, int pe),                 \
                    put_nbi<UNIT>(context, call, dest, source, nelems, pe))                   \
  SHMEM_DEFINE_BOTH(void,                                                                     \
                    NAME##get##SUFFIX##_nbi,                                                  \
                    CTX_NAME##get##SUFFIX##_nbi,                                              \
                    (TYPE * dest, const TYPE *source, size_t nelems, int pe),                 \
                    get_nbi<UNIT>(context, call, dest, source, nelems, pe))                   \
  SHMEM_DEFINE_BOTH(void,                                                                     \
                    NAME##put##SUFFIX##_signal,                                               \
                    CTX_NAME##put##SUFFIX##_signal,                                           \
                    (TYPE * dest,                                                             \
                     const TYPE *source,                                                      \
                     size_t nelems,                                                           \
                     uint64_t *sig_addr,                                                      \
                     uint64_t signal,                                                         \
                     int sig_op,                                                              \
                     int pe),                                                                 \
                    put_signal<UNIT, &tanada::onesided::context::put_signal>(                 \
                        context, call, dest, source, nelems, {sig_addr, signal, sig_op}, pe)) \
  SHMEM_DEFINE_BOTH(void,                                                                     \
                    NAME##put##SUFFIX##_signal_nbi,                                           \
                    CTX_NAME##put##SUFFIX##_signal_nbi,                                       \
                    (TYPE * dest,                                                             \
                     const TYPE *source,                                                      \
                     size_t nelems,                                                           \
                     uint64_t *sig_addr,                                                      \
                     uint64_t signal,                                                         \
                     int sig_op,                                                              \
                     int pe),                                                                 \
                    put_signal<UNIT, &tanada::onesided::context::put_signal_nbi>(             \
                        context, call, dest, source, nelems, {sig_addr, signal, sig_op}, pe))

#define TND_DEFINE_STRIDED(NAME, CTX_NAME, SUFFIX, TYPE, UNIT)                                     \
  SHMEM_DEFINE_BOTH(                                                                               \
      void,                                                                                        \
      NAME##iput##SUFFIX,                                                                          \
      CTX_NAME##iput##SUFFIX,                                                                      \
      (TYPE * dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe),      \
      put_blocks<UNIT>(context, call, dest, source, {1, nelems, dst, sst}, pe))                    \
  SHMEM_DEFINE_BOTH(                                                                               \
      void,                                                                                        \
      NAME##iget##SUFFIX,                                                                          \
      CTX_NAME##iget##SUFFIX,                                                                      \
      (TYPE * dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe),      \
      get_blocks<UNIT>(context, call, dest, source, {1, nelems, dst, sst}, pe))                    \
  SHMEM_DEFINE_BOTH(void,                                                                          \
                    NAME##ibput##SUFFIX,                                                           \
                    CTX_NAME##ibput##SUFFIX,                                                       \
                    (TYPE * dest,                                                                  \
                     const TYPE *source,                                                           \
                     ptrdiff_t dst,                                                                \
                     ptrdiff_t sst,                                                                \
                     size_t bsize,                                                                 \
                     size_t nblocks,                                                               \
                     int pe),                                                                      \
                    put_blocks<UNIT>(context, call, dest, source, {bsize, nblocks, dst, sst}, pe)) \
  SHMEM_DEFINE_BOTH(void,                                                                          \
                    NAME##ibget##SUFFIX,                                                           \
                    CTX_NAME##ibget##SUFFIX,                                                       \
                    (TYPE * dest,                                                                  \
                     const TYPE *source,                                                           \
                     ptrdiff_t dst,                                                                \
                     ptrdiff_t sst,                                                                \
                     size_t bsize,                                                                 \
                     size_t nblocks,                                                               \
                     int pe),                                                                      \
                    get_blocks<UNIT>(context, call, dest, source, {bsize, nblocks, dst, sst}, pe))
