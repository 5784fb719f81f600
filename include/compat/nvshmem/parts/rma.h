// parts/rma.h: put, get, their strided and signalling forms, single elements and atomics. Not for
// direct inclusion.
#pragma once

#include "setup.h"

namespace tanada::nvshmem {

using bodies::ends;

// ---- host code. Elements of any type are bytes.

template <class T>
void host_put(T *dest, const T *source, size_t count, int pe) {
  shmem_putmem(dest, source, count * sizeof(T), pe);
}
template <class T>
void host_put_nbi(T *dest, const T *source, size_t count, int pe) {
  shmem_putmem_nbi(dest, source, count * sizeof(T), pe);
}
template <class T>
void host_get(T *dest, const T *source, size_t count, int pe) {
  shmem_getmem(dest, source, count * sizeof(T), pe);
}
template <class T>
void host_get_nbi(T *dest, const T *source, size_t count, int pe) {
  shmem_getmem_nbi(dest, source, count * sizeof(T), pe);
}
template <class T>
void host_p(T *dest, const T &value, int pe) {
  shmem_putmem(dest, &value, sizeof value, pe);
}
template <class T>
T host_g(const T *source, int pe) {
  T value;
  shmem_getmem(&value, source, sizeof value, pe);
  return value;
}
template <class T>
void host_iput(T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t count, int pe) {
  if constexpr (sizeof(T) == 1)
    shmem_iput8(dest, source, dst, sst, count, pe);
  else if constexpr (sizeof(T) == 2)
    shmem_iput16(dest, source, dst, sst, count, pe);
  else if constexpr (sizeof(T) == 4)
    shmem_iput32(dest, source, dst, sst, count, pe);
  else if constexpr (sizeof(T) == 8)
    shmem_iput64(dest, source, dst, sst, count, pe);
  else
    shmem_iput128(dest, source, dst, sst, count, pe);
}
template <class T>
void host_iget(T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t count, int pe) {
  if constexpr (sizeof(T) == 1)
    shmem_iget8(dest, source, dst, sst, count, pe);
  else if constexpr (sizeof(T) == 2)
    shmem_iget16(dest, source, dst, sst, count, pe);
  else if constexpr (sizeof(T) == 4)
    shmem_iget32(dest, source, dst, sst, count, pe);
  else if constexpr (sizeof(T) == 8)
    shmem_iget64(dest, source, dst, sst, count, pe);
  else
    shmem_iget128(dest, source, dst, sst, count, pe);
}
inline void host_signal(uint64_t *signal, uint64_t value, int operation, int pe) {
  if (operation == NVSHMEM_SIGNAL_ADD)
    shmem_signal_add(signal, value, pe);
  else
    shmem_signal_set(signal, value, pe);
}

// ---- kernels

template <ends Ends, class Group, class T>
TND_DEVICE inline void put(Group group, T *dest, const T *source, size_t count, int pe) {
  (void)bodies::put<Ends>(group, world_context, dest, source, count * sizeof(T), pe);
}
template <ends Ends, class Group, class T>
TND_DEVICE inline void get(Group group, T *dest, const T *source, size_t count, int pe) {
  (void)bodies::get<Ends>(group, world_context, dest, source, count * sizeof(T), pe);
}
template <class Group, class T>
TND_DEVICE inline void iput(
    Group group, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t count, int pe) {
  (void)bodies::put_rows(group, world_context, dest, source, {dst, sst}, count, pe);
}
template <class Group, class T>
TND_DEVICE inline void iget(
    Group group, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t count, int pe) {
  (void)bodies::get_rows(group, world_context, dest, source, {dst, sst}, count, pe);
}
template <ends Ends, class Group>
TND_DEVICE inline void put_signal(Group group,
                                  void *dest,
                                  const void *source,
                                  size_t size,
                                  uint64_t *signal,
                                  uint64_t value,
                                  int operation,
                                  int pe) {
  (void)bodies::put_signal<Ends>(group,
                                 world_context,
                                 dest,
                                 source,
                                 size,
                                 reinterpret_cast<u64 *>(signal),
                                 value,
                                 operation,
                                 pe);
}
TND_DEVICE inline void signal(uint64_t *signal, uint64_t value, int operation, int pe) {
  (void)bodies::put_signal_only(
      world_context, reinterpret_cast<u64 *>(signal), value, operation == NVSHMEM_SIGNAL_ADD, pe);
}

}  // namespace tanada::nvshmem

// ---- blocks of elements

// One thread, and host code.
#define NVSHMEM_BLOCK_(NAME, TYPE)                                                                 \
  NVSHMEM_BOTH_ void nvshmem_##NAME##_put(TYPE *dest, const TYPE *source, size_t nelems, int pe) { \
    NVSHMEM_SELECT_(tanada::nvshmem::put<tanada::nvshmem::ends::at_once>(                          \
                        tanada::this_thread{}, dest, source, nelems, pe),                          \
                    tanada::nvshmem::host_put(dest, source, nelems, pe));                          \
  }                                                                                                \
  NVSHMEM_BOTH_ void nvshmem_##NAME##_put##_nbi(                                                   \
      TYPE *dest, const TYPE *source, size_t nelems, int pe) {                                     \
    NVSHMEM_SELECT_(tanada::nvshmem::put<tanada::nvshmem::ends::later>(                            \
                        tanada::this_thread{}, dest, source, nelems, pe),                          \
                    tanada::nvshmem::host_put_nbi(dest, source, nelems, pe));                      \
  }                                                                                                \
  NVSHMEM_BOTH_ void nvshmem_##NAME##_get(TYPE *dest, const TYPE *source, size_t nelems, int pe) { \
    NVSHMEM_SELECT_(tanada::nvshmem::get<tanada::nvshmem::ends::at_once>(                          \
                        tanada::this_thread{}, dest, source, nelems, pe),                          \
                    tanada::nvshmem::host_get(dest, source, nelems, pe));                          \
  }                                                                                                \
  NVSHMEM_BOTH_ void nvshmem_##NAME##_get##_nbi(                                                   \
      TYPE *dest, const TYPE *source, size_t nelems, int pe) {                                     \
    NVSHMEM_SELECT_(tanada::nvshmem::get<tanada::nvshmem::ends::later>(                            \
                        tanada::this_thread{}, dest, source, nelems, pe),                          \
                    tanada::nvshmem::host_get_nbi(dest, source, nelems, pe));                      \
  }                                                                                                \
  NVSHMEM_BOTH_ void nvshmem_##NAME##_iput(                                                        \
      TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe) {       \
    NVSHMEM_SELECT_(                                                                               \
        tanada::nvshmem::iput(tanada::this_thread{}, dest, source, dst, sst, nelems, pe),          \
        tanada::nvshmem::host_iput(dest, source, dst, sst, nelems, pe));                           \
  }                                                                                                \
  NVSHMEM_BOTH_ void nvshmem_##NAME##_iget(                                                        \
      TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe) {       \
    NVSHMEM_SELECT_(                                                                               \
        tanada::nvshmem::iget(tanada::this_thread{}, dest, source, dst, sst, nelems, pe),          \
        tanada::nvshmem::host_iget(dest, source, dst, sst, nelems, pe));                           \
  }                                                                                                \
  NVSHMEM_BLOCK_SIGNAL_(nvshmem_##NAME##_put##_signal, at_once, TYPE, shmem_putmem_signal)         \
  NVSHMEM_BLOCK_SIGNAL_(nvshmem_##NAME##_put##_signal_nbi, later, TYPE, shmem_putmem_signal_nbi)
#define NVSHMEM_BLOCK_SIGNAL_(NAME, ENDS, TYPE, HOST)                                   \
  NVSHMEM_BOTH_ void NAME(TYPE *dest,                                                   \
                          const TYPE *source,                                           \
                          size_t nelems,                                                \
                          uint64_t *sig_addr,                                           \
                          uint64_t signal,                                              \
                          int sig_op,                                                   \
                          int pe) {                                                     \
    NVSHMEM_SELECT_(                                                                    \
        tanada::nvshmem::put_signal<tanada::nvshmem::ends::ENDS>(tanada::this_thread{}, \
                                                                 dest,                  \
                                                                 source,                \
                                                                 nelems * sizeof(TYPE), \
                                                                 sig_addr,              \
                                                                 signal,                \
                                                                 sig_op,                \
                                                                 pe),                   \
        HOST(dest, source, nelems * sizeof(TYPE), sig_addr, signal, sig_op, pe));       \
  }

// All threads of a warp or block.
#define NVSHMEMX_BLOCK_(NAME, TYPE, S, GROUP)                                                \
  NVSHMEMX_PUT_GET_(NAME, _##S, TYPE, GROUP, at_once)                                        \
  NVSHMEMX_PUT_GET_(NAME, _nbi_##S, TYPE, GROUP, later)                                      \
  NVSHMEM_DEVICE_ void nvshmemx_##NAME##_iput_##S(                                           \
      TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe) { \
    tanada::nvshmem::iput(tanada::GROUP{}, dest, source, dst, sst, nelems, pe);              \
  }                                                                                          \
  NVSHMEM_DEVICE_ void nvshmemx_##NAME##_iget_##S(                                           \
      TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe) { \
    tanada::nvshmem::iget(tanada::GROUP{}, dest, source, dst, sst, nelems, pe);              \
  }                                                                                          \
  NVSHMEMX_BLOCK_SIGNAL_(nvshmemx_##NAME##_put_signal_##S, TYPE, GROUP, at_once)             \
  NVSHMEMX_BLOCK_SIGNAL_(nvshmemx_##NAME##_put_signal_nbi_##S, TYPE, GROUP, later)
#define NVSHMEMX_PUT_GET_(NAME, SUFFIX, TYPE, GROUP, ENDS)                                        \
  NVSHMEM_DEVICE_ void nvshmemx_##NAME##_put##SUFFIX(                                             \
      TYPE *dest, const TYPE *source, size_t nelems, int pe) {                                    \
    tanada::nvshmem::put<tanada::nvshmem::ends::ENDS>(tanada::GROUP{}, dest, source, nelems, pe); \
  }                                                                                               \
  NVSHMEM_DEVICE_ void nvshmemx_##NAME##_get##SUFFIX(                                             \
      TYPE *dest, const TYPE *source, size_t nelems, int pe) {                                    \
    tanada::nvshmem::get<tanada::nvshmem::ends::ENDS>(tanada::GROUP{}, dest, source, nelems, pe); \
  }
#define NVSHMEMX_BLOCK_SIGNAL_(NAME, TYPE, GROUP, ENDS)                                      \
  NVSHMEM_DEVICE_ void NAME(TYPE *dest,                                                      \
                            const TYPE *source,                                              \
                            size_t nelems,                                                   \
                            uint64_t *sig_addr,                                              \
                            uint64_t signal,                                                 \
                            int sig_op,                                                      \
                            int pe) {                                                        \
    tanada::nvshmem::put_signal<tanada::nvshmem::ends::ENDS>(                                \
        tanada::GROUP{}, dest, source, nelems * sizeof(TYPE), sig_addr, signal, sig_op, pe); \
  }

#define NVSHMEM_TYPED_(NAME, TYPE, A)                                                        \
  NVSHMEM_BLOCK_(NAME, TYPE)                                                                 \
  NVSHMEMX_BLOCK_(NAME, TYPE, warp, this_warp)                                               \
  NVSHMEMX_BLOCK_(NAME, TYPE, block, this_block)                                             \
  NVSHMEM_BOTH_ void nvshmem_##NAME##_p(TYPE *dest, const TYPE value, int pe) {              \
    NVSHMEM_SELECT_((void)tanada::nvshmem::bodies::put_value(                                \
                        tanada::nvshmem::world_context, dest, static_cast<TYPE>(value), pe), \
                    tanada::nvshmem::host_p(dest, value, pe));                               \
  }                                                                                          \
  NVSHMEM_BOTH_ TYPE nvshmem_##NAME##_g(const TYPE *source, int pe) {                        \
    NVSHMEM_SELECT_(                                                                         \
        tanada::nvshmem::bodies::get_value(tanada::nvshmem::world_context, source, pe),      \
        tanada::nvshmem::host_g(source, pe));                                                \
  }
namespace tanada::nvshmem {

// The untyped calls are those of bytes.
using byte = unsigned char;
inline TND_HD byte *bytes(void *addr) {
  return static_cast<byte *>(addr);
}
inline TND_HD const byte *bytes(const void *addr) {
  return static_cast<const byte *>(addr);
}

}  // namespace tanada::nvshmem

NVSHMEM_TABLE_RMA_(NVSHMEM_TYPED_, )
NVSHMEM_TYPED_(double2, double2, )  // for elements of 128 bits

#define NVSHMEM_MEMORY_(NAME, SIGNAL_NAME, CALL, SIGNAL_CALL, QUALIFIER)            \
  QUALIFIER void NAME(void *dest, const void *source, size_t nelems, int pe) {      \
    CALL(tanada::nvshmem::bytes(dest), tanada::nvshmem::bytes(source), nelems, pe); \
  }                                                                                 \
  QUALIFIER void SIGNAL_NAME(void *dest,                                            \
                             const void *source,                                    \
                             size_t nelems,                                         \
                             uint64_t *sig_addr,                                    \
                             uint64_t signal,                                       \
                             int sig_op,                                            \
                             int pe) {                                              \
    SIGNAL_CALL(tanada::nvshmem::bytes(dest),                                       \
                tanada::nvshmem::bytes(source),                                     \
                nelems,                                                             \
                sig_addr,                                                           \
                signal,                                                             \
                sig_op,                                                             \
                pe);                                                                \
  }
#define NVSHMEM_GET_MEMORY_(NAME, CALL, QUALIFIER)                                  \
  QUALIFIER void NAME(void *dest, const void *source, size_t nelems, int pe) {      \
    CALL(tanada::nvshmem::bytes(dest), tanada::nvshmem::bytes(source), nelems, pe); \
  }
NVSHMEM_MEMORY_(nvshmem_putmem,
                nvshmem_putmem_signal,
                nvshmem_uchar_put,
                nvshmem_uchar_put_signal,
                NVSHMEM_BOTH_)
NVSHMEM_MEMORY_(nvshmem_putmem_nbi,
                nvshmem_putmem_signal_nbi,
                nvshmem_uchar_put_nbi,
                nvshmem_uchar_put_signal_nbi,
                NVSHMEM_BOTH_)
NVSHMEM_MEMORY_(nvshmemx_putmem_warp,
                nvshmemx_putmem_signal_warp,
                nvshmemx_uchar_put_warp,
                nvshmemx_uchar_put_signal_warp,
                NVSHMEM_DEVICE_)
NVSHMEM_MEMORY_(nvshmemx_putmem_nbi_warp,
                nvshmemx_putmem_signal_nbi_warp,
                nvshmemx_uchar_put_nbi_warp,
                nvshmemx_uchar_put_signal_nbi_warp,
                NVSHMEM_DEVICE_)
NVSHMEM_MEMORY_(nvshmemx_putmem_block,
                nvshmemx_putmem_signal_block,
                nvshmemx_uchar_put_block,
                nvshmemx_uchar_put_signal_block,
                NVSHMEM_DEVICE_)
NVSHMEM_MEMORY_(nvshmemx_putmem_nbi_block,
                nvshmemx_putmem_signal_nbi_block,
                nvshmemx_uchar_put_nbi_block,
                nvshmemx_uchar_put_signal_nbi_block,
                NVSHMEM_DEVICE_)
NVSHMEM_GET_MEMORY_(nvshmem_getmem, nvshmem_uchar_get, NVSHMEM_BOTH_)
NVSHMEM_GET_MEMORY_(nvshmem_getmem_nbi, nvshmem_uchar_get_nbi, NVSHMEM_BOTH_)
NVSHMEM_GET_MEMORY_(nvshmemx_getmem_warp, nvshmemx_uchar_get_warp, NVSHMEM_DEVICE_)
NVSHMEM_GET_MEMORY_(nvshmemx_getmem_nbi_warp, nvshmemx_uchar_get_nbi_warp, NVSHMEM_DEVICE_)
NVSHMEM_GET_MEMORY_(nvshmemx_getmem_block, nvshmemx_uchar_get_block, NVSHMEM_DEVICE_)
NVSHMEM_GET_MEMORY_(nvshmemx_getmem_nbi_block, nvshmemx_uchar_get_nbi_block, NVSHMEM_DEVICE_)

#undef NVSHMEM_TYPED_
#undef NVSHMEM_MEMORY_
#undef NVSHMEM_GET_MEMORY_

#undef NVSHMEM_BLOCK_
#undef NVSHMEM_BLOCK_SIGNAL_
#undef NVSHMEMX_BLOCK_
#undef NVSHMEMX_PUT_GET_
#undef NVSHMEMX_BLOCK_SIGNAL_

// ---- signals

NVSHMEM_BOTH_ void nvshmemx_signal_op(uint64_t *sig_addr, uint64_t signal, int sig_op, int pe) {
  NVSHMEM_SELECT_(tanada::nvshmem::signal(sig_addr, signal, sig_op, pe),
                  tanada::nvshmem::host_signal(sig_addr, signal, sig_op, pe));
}
NVSHMEM_BOTH_ uint64_t nvshmem_signal_fetch(uint64_t *sig_addr) {
  NVSHMEM_SELECT_(shmemg_signal_fetch(sig_addr), shmem_signal_fetch(sig_addr));
}

#include "sized.h"
#include "atomics.h"
