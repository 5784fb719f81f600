/* shmem/rma.h: put, get, and put with a signal. C99 and C++11. */
#ifndef TANADA_COMPAT_SHMEM_RMA_H
#define TANADA_COMPAT_SHMEM_RMA_H

#include "constants.h"
#include "types.h"

#include "begin.h"

/* put returns when `source` may be reused, get when `dest` has the data; with _nbi, both hold only
 * after the next quiet. `dest` of a put and `source` of a get are symmetric; the other may be any
 * memory. iput and iget: the strides `dst` and `sst` are in elements. ibput and ibget: blocks of
 * `bsize` elements. 9.6, 9.7. */
#define SHMEM_DECLARE_RMA_(NAME, TYPE, P)                                        \
  void P##shmem_##NAME##_p(TYPE *dest, TYPE value, int pe);                      \
  void P##shmem_ctx_##NAME##_p(shmem_ctx_t ctx, TYPE *dest, TYPE value, int pe); \
  TYPE P##shmem_##NAME##_g(const TYPE *source, int pe);                          \
  TYPE P##shmem_ctx_##NAME##_g(shmem_ctx_t ctx, const TYPE *source, int pe);     \
  SHMEM_DECLARE_BLOCKS_(P##shmem_##NAME##_, P##shmem_ctx_##NAME##_, , TYPE)

/* The calls that exist by type, by width in bits, and for bytes: NAME PUT SUFFIX. */
#define SHMEM_DECLARE_BLOCKS_(NAME, CTX_NAME, SUFFIX, TYPE)                                 \
  SHMEM_DECLARE_PLAIN_(NAME, CTX_NAME, SUFFIX, TYPE)                                        \
  void NAME##iput##SUFFIX(                                                                  \
      TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe); \
  void NAME##iget##SUFFIX(                                                                  \
      TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe); \
  void NAME##ibput##SUFFIX(TYPE *dest,                                                      \
                           const TYPE *source,                                              \
                           ptrdiff_t dst,                                                   \
                           ptrdiff_t sst,                                                   \
                           size_t bsize,                                                    \
                           size_t nblocks,                                                  \
                           int pe);                                                         \
  void NAME##ibget##SUFFIX(TYPE *dest,                                                      \
                           const TYPE *source,                                              \
                           ptrdiff_t dst,                                                   \
                           ptrdiff_t sst,                                                   \
                           size_t bsize,                                                    \
                           size_t nblocks,                                                  \
                           int pe);                                                         \
  void CTX_NAME##iput##SUFFIX(shmem_ctx_t ctx,                                              \
                              TYPE *dest,                                                   \
                              const TYPE *source,                                           \
                              ptrdiff_t dst,                                                \
                              ptrdiff_t sst,                                                \
                              size_t nelems,                                                \
                              int pe);                                                      \
  void CTX_NAME##iget##SUFFIX(shmem_ctx_t ctx,                                              \
                              TYPE *dest,                                                   \
                              const TYPE *source,                                           \
                              ptrdiff_t dst,                                                \
                              ptrdiff_t sst,                                                \
                              size_t nelems,                                                \
                              int pe);                                                      \
  void CTX_NAME##ibput##SUFFIX(shmem_ctx_t ctx,                                             \
                               TYPE *dest,                                                  \
                               const TYPE *source,                                          \
                               ptrdiff_t dst,                                               \
                               ptrdiff_t sst,                                               \
                               size_t bsize,                                                \
                               size_t nblocks,                                              \
                               int pe);                                                     \
  void CTX_NAME##ibget##SUFFIX(shmem_ctx_t ctx,                                             \
                               TYPE *dest,                                                  \
                               const TYPE *source,                                          \
                               ptrdiff_t dst,                                               \
                               ptrdiff_t sst,                                               \
                               size_t bsize,                                                \
                               size_t nblocks,                                              \
                               int pe);

/* put_signal: a PE that sees the signal updated, by SHMEM_SIGNAL_SET or _ADD, sees the data, too.
 * 9.9. */
#define SHMEM_DECLARE_PLAIN_(NAME, CTX_NAME, SUFFIX, TYPE)                             \
  void NAME##put##SUFFIX(TYPE *dest, const TYPE *source, size_t nelems, int pe);       \
  void NAME##get##SUFFIX(TYPE *dest, const TYPE *source, size_t nelems, int pe);       \
  void NAME##put##SUFFIX##_nbi(TYPE *dest, const TYPE *source, size_t nelems, int pe); \
  void NAME##get##SUFFIX##_nbi(TYPE *dest, const TYPE *source, size_t nelems, int pe); \
  void CTX_NAME##put##SUFFIX(                                                          \
      shmem_ctx_t ctx, TYPE *dest, const TYPE *source, size_t nelems, int pe);         \
  void CTX_NAME##get##SUFFIX(                                                          \
      shmem_ctx_t ctx, TYPE *dest, const TYPE *source, size_t nelems, int pe);         \
  void CTX_NAME##put##SUFFIX##_nbi(                                                    \
      shmem_ctx_t ctx, TYPE *dest, const TYPE *source, size_t nelems, int pe);         \
  void CTX_NAME##get##SUFFIX##_nbi(                                                    \
      shmem_ctx_t ctx, TYPE *dest, const TYPE *source, size_t nelems, int pe);         \
  void NAME##put##SUFFIX##_signal(TYPE *dest,                                          \
                                  const TYPE *source,                                  \
                                  size_t nelems,                                       \
                                  uint64_t *sig_addr,                                  \
                                  uint64_t signal,                                     \
                                  int sig_op,                                          \
                                  int pe);                                             \
  void NAME##put##SUFFIX##_signal_nbi(TYPE *dest,                                      \
                                      const TYPE *source,                              \
                                      size_t nelems,                                   \
                                      uint64_t *sig_addr,                              \
                                      uint64_t signal,                                 \
                                      int sig_op,                                      \
                                      int pe);                                         \
  void CTX_NAME##put##SUFFIX##_signal(shmem_ctx_t ctx,                                 \
                                      TYPE *dest,                                      \
                                      const TYPE *source,                              \
                                      size_t nelems,                                   \
                                      uint64_t *sig_addr,                              \
                                      uint64_t signal,                                 \
                                      int sig_op,                                      \
                                      int pe);                                         \
  void CTX_NAME##put##SUFFIX##_signal_nbi(shmem_ctx_t ctx,                             \
                                          TYPE *dest,                                  \
                                          const TYPE *source,                          \
                                          size_t nelems,                               \
                                          uint64_t *sig_addr,                          \
                                          uint64_t signal,                             \
                                          int sig_op,                                  \
                                          int pe);

#define SHMEM_DECLARE_BITS_(BITS, P) SHMEM_DECLARE_BLOCKS_(P##shmem_, P##shmem_ctx_, BITS, void)

/* Signals without data; signal_fetch reads a signal of this PE. 9.9. */
#define SHMEM_DECLARE_SIGNALS_(P)                                                             \
  void P##shmem_signal_set(uint64_t *sig_addr, uint64_t signal, int pe);                      \
  void P##shmem_ctx_signal_set(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe); \
  void P##shmem_signal_add(uint64_t *sig_addr, uint64_t signal, int pe);                      \
  void P##shmem_ctx_signal_add(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe); \
  uint64_t P##shmem_signal_fetch(const uint64_t *sig_addr);                                   \
  uint64_t P##shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value);

SHMEM_TABLE_RMA(SHMEM_DECLARE_RMA_, )
SHMEM_TABLE_RMA(SHMEM_DECLARE_RMA_, p)
SHMEM_TABLE_BITS(SHMEM_DECLARE_BITS_, )
SHMEM_TABLE_BITS(SHMEM_DECLARE_BITS_, p)
SHMEM_DECLARE_PLAIN_(shmem_, shmem_ctx_, mem, void)
SHMEM_DECLARE_PLAIN_(pshmem_, pshmem_ctx_, mem, void)
SHMEM_DECLARE_SIGNALS_()
SHMEM_DECLARE_SIGNALS_(p)

#include "end.h"

#endif
