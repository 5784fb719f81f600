// parts/on_stream.h: calls that the host queues on streams, between kernels. Not for direct
// inclusion.
#pragma once

namespace tanada::nvshmem {

template <class T>
void put_on_stream(T *dest, const T *source, size_t count, int pe, cudaStream_t stream) {
  bodies::put_on_stream(dest, source, count * sizeof(T), pe, stream_of(stream));
}
template <class T>
void get_on_stream(T *dest, const T *source, size_t count, int pe, cudaStream_t stream) {
  bodies::get_on_stream(dest, source, count * sizeof(T), pe, stream_of(stream));
}

struct row_shape {
  ptrdiff_t target, source;
  size_t count;
};
template <class T>
static TND_KERNEL void put_rows_kernel(T *dest, const T *source, row_shape rows, int pe) {
  iput(this_block{}, dest, source, rows.target, rows.source, rows.count, pe);
}
template <class T>
static TND_KERNEL void get_rows_kernel(T *dest, const T *source, row_shape rows, int pe) {
  iget(this_block{}, dest, source, rows.target, rows.source, rows.count, pe);
}
template <class T>
static TND_KERNEL void put_value_kernel(T *dest, T value, int pe) {
  (void)bodies::put_value(world_context, dest, value, pe);
}
template <class T>
static TND_KERNEL void wait_value_kernel(T *word, int comparison, T value) {
  (void)bodies::wait(this_thread{}, word, comparison, value);
}

// The host's own variable receives the value: the call waits for the stream.
template <class T>
T g_on_stream(const T *source, int pe, cudaStream_t stream) {
  (void)cudaStreamSynchronize(stream);
  return host_g(source, pe);
}

}  // namespace tanada::nvshmem

#define NVSHMEMX_ON_STREAM_(NAME, TYPE, A)                                                        \
  inline void nvshmemx_##NAME##_put_on_stream(                                                    \
      TYPE *dest, const TYPE *source, size_t nelems, int pe, cudaStream_t stream) {               \
    tanada::nvshmem::put_on_stream(dest, source, nelems, pe, stream);                             \
  }                                                                                               \
  inline void nvshmemx_##NAME##_put_nbi_on_stream(                                                \
      TYPE *dest, const TYPE *source, size_t nelems, int pe, cudaStream_t stream) {               \
    tanada::nvshmem::put_on_stream(dest, source, nelems, pe, stream);                             \
  }                                                                                               \
  inline void nvshmemx_##NAME##_get_on_stream(                                                    \
      TYPE *dest, const TYPE *source, size_t nelems, int pe, cudaStream_t stream) {               \
    tanada::nvshmem::get_on_stream(dest, source, nelems, pe, stream);                             \
  }                                                                                               \
  inline void nvshmemx_##NAME##_get_nbi_on_stream(                                                \
      TYPE *dest, const TYPE *source, size_t nelems, int pe, cudaStream_t stream) {               \
    tanada::nvshmem::get_on_stream(dest, source, nelems, pe, stream);                             \
  }                                                                                               \
  NVSHMEMX_ROWS_ON_STREAM_(nvshmemx_##NAME##_iput_on_stream, TYPE, put_rows_kernel)               \
  NVSHMEMX_ROWS_ON_STREAM_(nvshmemx_##NAME##_iget_on_stream, TYPE, get_rows_kernel)               \
  NVSHMEMX_PUT_SIGNAL_ON_STREAM_(nvshmemx_##NAME##_put_signal_on_stream, TYPE, sizeof(TYPE))      \
  NVSHMEMX_PUT_SIGNAL_ON_STREAM_(nvshmemx_##NAME##_put_signal_nbi_on_stream, TYPE, sizeof(TYPE))  \
  template <class Element = TYPE>                                                                 \
  void nvshmemx_##NAME##_p_on_stream(TYPE *dest, const TYPE value, int pe, cudaStream_t stream) { \
    tanada::nvshmem::bodies::queue(tanada::nvshmem::stream_of(stream),                            \
                                   1,                                                             \
                                   1,                                                             \
                                   tanada::nvshmem::put_value_kernel<Element>,                    \
                                   dest,                                                          \
                                   value,                                                         \
                                   pe);                                                           \
  }                                                                                               \
  inline TYPE nvshmemx_##NAME##_g_on_stream(const TYPE *source, int pe, cudaStream_t stream) {    \
    return tanada::nvshmem::g_on_stream(source, pe, stream);                                      \
  }                                                                                               \
  inline int nvshmemx_##NAME##_broadcast_on_stream(nvshmem_team_t team,                           \
                                                   TYPE *dest,                                    \
                                                   const TYPE *source,                            \
                                                   size_t nelems,                                 \
                                                   int PE_root,                                   \
                                                   cudaStream_t stream) {                         \
    return tanada::nvshmem::broadcast_on_stream(team, dest, source, nelems, PE_root, stream);     \
  }                                                                                               \
  inline int nvshmemx_##NAME##_fcollect_on_stream(                                                \
      nvshmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, cudaStream_t stream) {  \
    return tanada::nvshmem::fcollect_on_stream(team, dest, source, nelems, stream);               \
  }                                                                                               \
  inline int nvshmemx_##NAME##_alltoall_on_stream(                                                \
      nvshmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, cudaStream_t stream) {  \
    return tanada::nvshmem::alltoall_on_stream(team, dest, source, nelems, stream);               \
  }
#define NVSHMEMX_ROWS_ON_STREAM_(NAME, TYPE, KERNEL)                             \
  template <class Element = TYPE>                                                \
  void NAME(TYPE *dest,                                                          \
            const TYPE *source,                                                  \
            ptrdiff_t dst,                                                       \
            ptrdiff_t sst,                                                       \
            size_t nelems,                                                       \
            int pe,                                                              \
            cudaStream_t stream) {                                               \
    tanada::nvshmem::bodies::queue(tanada::nvshmem::stream_of(stream),           \
                                   1,                                            \
                                   tanada::nvshmem::bodies::copy_block_size,     \
                                   tanada::nvshmem::KERNEL<Element>,             \
                                   dest,                                         \
                                   source,                                       \
                                   tanada::nvshmem::row_shape{dst, sst, nelems}, \
                                   pe);                                          \
  }
#define NVSHMEMX_PUT_SIGNAL_ON_STREAM_(NAME, TYPE, SIZE)                               \
  inline void NAME(TYPE *dest,                                                         \
                   const TYPE *source,                                                 \
                   size_t nelems,                                                      \
                   uint64_t *sig_addr,                                                 \
                   uint64_t signal,                                                    \
                   int sig_op,                                                         \
                   int pe,                                                             \
                   cudaStream_t stream) {                                              \
    tanada::nvshmem::bodies::put_signal_on_stream(dest,                                \
                                                  source,                              \
                                                  nelems *SIZE,                        \
                                                  {sig_addr, signal, sig_op},          \
                                                  pe,                                  \
                                                  tanada::nvshmem::stream_of(stream)); \
  }
NVSHMEM_TABLE_RMA_(NVSHMEMX_ON_STREAM_, )

// Elements of some width, and bytes.
#define NVSHMEMX_SIZED_ON_STREAM_(NAME, SIZE)                                                    \
  inline void nvshmemx_put##NAME##_on_stream(                                                    \
      void *dest, const void *source, size_t nelems, int pe, cudaStream_t stream) {              \
    tanada::nvshmem::put_on_stream(                                                              \
        tanada::nvshmem::bytes(dest), tanada::nvshmem::bytes(source), nelems *SIZE, pe, stream); \
  }                                                                                              \
  inline void nvshmemx_put##NAME##_nbi_on_stream(                                                \
      void *dest, const void *source, size_t nelems, int pe, cudaStream_t stream) {              \
    nvshmemx_put##NAME##_on_stream(dest, source, nelems, pe, stream);                            \
  }                                                                                              \
  inline void nvshmemx_get##NAME##_on_stream(                                                    \
      void *dest, const void *source, size_t nelems, int pe, cudaStream_t stream) {              \
    tanada::nvshmem::get_on_stream(                                                              \
        tanada::nvshmem::bytes(dest), tanada::nvshmem::bytes(source), nelems *SIZE, pe, stream); \
  }                                                                                              \
  inline void nvshmemx_get##NAME##_nbi_on_stream(                                                \
      void *dest, const void *source, size_t nelems, int pe, cudaStream_t stream) {              \
    nvshmemx_get##NAME##_on_stream(dest, source, nelems, pe, stream);                            \
  }                                                                                              \
  NVSHMEMX_PUT_SIGNAL_ON_STREAM_(nvshmemx_put##NAME##_signal_on_stream, void, SIZE)              \
  NVSHMEMX_PUT_SIGNAL_ON_STREAM_(nvshmemx_put##NAME##_signal_nbi_on_stream, void, SIZE)
NVSHMEMX_SIZED_ON_STREAM_(8, 1)
NVSHMEMX_SIZED_ON_STREAM_(16, 2)
NVSHMEMX_SIZED_ON_STREAM_(32, 4)
NVSHMEMX_SIZED_ON_STREAM_(64, 8)
NVSHMEMX_SIZED_ON_STREAM_(128, 16)
NVSHMEMX_SIZED_ON_STREAM_(mem, 1)

// ---- signals, waits and ordering

inline void nvshmemx_signal_op_on_stream(
    uint64_t *sig_addr, uint64_t signal, int sig_op, int pe, cudaStream_t stream) {
  tanada::nvshmem::bodies::signal_on_stream(
      {sig_addr, signal, sig_op}, pe, tanada::nvshmem::stream_of(stream));
}
inline void nvshmemx_signal_wait_until_on_stream(uint64_t *sig_addr,
                                                 int cmp,
                                                 uint64_t cmp_value,
                                                 cudaStream_t stream) {
  tanada::nvshmem::bodies::wait_on_stream(
      sig_addr, cmp, cmp_value, tanada::nvshmem::stream_of(stream));
}
#define NVSHMEMX_WAIT_ON_STREAM_(NAME, TYPE, A)                              \
  template <class Word = TYPE>                                               \
  void nvshmemx_##NAME##_wait_until_on_stream(                               \
      TYPE *ivar, int cmp, TYPE cmp_value, cudaStream_t stream) {            \
    tanada::nvshmem::bodies::queue(tanada::nvshmem::stream_of(stream),       \
                                   1,                                        \
                                   1,                                        \
                                   tanada::nvshmem::wait_value_kernel<Word>, \
                                   ivar,                                     \
                                   cmp,                                      \
                                   cmp_value);                               \
  }
NVSHMEM_TABLE_WAIT_(NVSHMEMX_WAIT_ON_STREAM_, )

inline void nvshmemx_quiet_on_stream(cudaStream_t stream) {
  tanada::nvshmem::bodies::quiet_on_stream(tanada::nvshmem::stream_of(stream));
}
inline int nvshmemx_team_sync_on_stream(nvshmem_team_t team, cudaStream_t stream) {
  return tanada::nvshmem::bodies::sync_on_stream(tanada::nvshmem::host_team(team),
                                                 tanada::nvshmem::stream_of(stream));
}
inline int nvshmemx_sync_on_stream(nvshmem_team_t team, cudaStream_t stream) {
  return nvshmemx_team_sync_on_stream(team, stream);
}
inline int nvshmemx_sync_all_on_stream(cudaStream_t stream) {
  return nvshmemx_team_sync_on_stream(NVSHMEM_TEAM_WORLD, stream);
}
inline int nvshmemx_barrier_on_stream(nvshmem_team_t team, cudaStream_t stream) {
  return tanada::nvshmem::bodies::barrier_on_stream(tanada::nvshmem::host_team(team),
                                                    tanada::nvshmem::stream_of(stream));
}
inline void nvshmemx_barrier_all_on_stream(cudaStream_t stream) {
  (void)nvshmemx_barrier_on_stream(NVSHMEM_TEAM_WORLD, stream);
}

// ---- collectives

inline int nvshmemx_broadcastmem_on_stream(nvshmem_team_t team,
                                           void *dest,
                                           const void *source,
                                           size_t nelems,
                                           int PE_root,
                                           cudaStream_t stream) {
  return nvshmemx_uchar_broadcast_on_stream(
      team, tanada::nvshmem::bytes(dest), tanada::nvshmem::bytes(source), nelems, PE_root, stream);
}
inline int nvshmemx_fcollectmem_on_stream(
    nvshmem_team_t team, void *dest, const void *source, size_t nelems, cudaStream_t stream) {
  return nvshmemx_uchar_fcollect_on_stream(
      team, tanada::nvshmem::bytes(dest), tanada::nvshmem::bytes(source), nelems, stream);
}
inline int nvshmemx_alltoallmem_on_stream(
    nvshmem_team_t team, void *dest, const void *source, size_t nelems, cudaStream_t stream) {
  return nvshmemx_uchar_alltoall_on_stream(
      team, tanada::nvshmem::bytes(dest), tanada::nvshmem::bytes(source), nelems, stream);
}

#define NVSHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, OP, KIND)                                          \
  template <class Element = TYPE>                                                                 \
  int nvshmemx_##NAME##_##OP##_reduce_on_stream(                                                  \
      nvshmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce, cudaStream_t stream) { \
    return tanada::nvshmem::reduce_on_stream<tanada::nvshmem::bodies::reduction::KIND, Element>(  \
        team, dest, source, nreduce, stream);                                                     \
  }                                                                                               \
  template <class Element = TYPE>                                                                 \
  int nvshmemx_##NAME##_##OP##_reducescatter_on_stream(                                           \
      nvshmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce, cudaStream_t stream) { \
    return tanada::nvshmem::reduce_scatter_on_stream<tanada::nvshmem::bodies::reduction::KIND,    \
                                                     Element>(                                    \
        team, dest, source, nreduce, stream);                                                     \
  }
#define NVSHMEMX_REDUCES_ON_STREAM_(NAME, TYPE, A)   \
  NVSHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, sum, sum)   \
  NVSHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, prod, prod) \
  NVSHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, min, min)   \
  NVSHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, max, max)
#define NVSHMEMX_REDUCE_BITS_ON_STREAM_(NAME, TYPE, A) \
  NVSHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, and, bit_and) \
  NVSHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, or, bit_or)   \
  NVSHMEMX_REDUCE_ON_STREAM_(NAME, TYPE, xor, bit_xor)
NVSHMEM_TABLE_RMA_(NVSHMEMX_REDUCES_ON_STREAM_, )
NVSHMEM_TABLE_REDUCE_BITS_(NVSHMEMX_REDUCE_BITS_ON_STREAM_, )

#undef NVSHMEMX_ON_STREAM_
#undef NVSHMEMX_ROWS_ON_STREAM_
#undef NVSHMEMX_PUT_SIGNAL_ON_STREAM_
#undef NVSHMEMX_SIZED_ON_STREAM_
#undef NVSHMEMX_WAIT_ON_STREAM_
#undef NVSHMEMX_REDUCE_ON_STREAM_
#undef NVSHMEMX_REDUCES_ON_STREAM_
#undef NVSHMEMX_REDUCE_BITS_ON_STREAM_
