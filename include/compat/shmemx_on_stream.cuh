/* shmemx_on_stream.cuh: OpenSHMEM calls in the order of a stream's kernels. CUDA and, for the host
 * executor, C++17.
 *
 * The draft of the auxiliary specification for GPUs has none of these. Each is queued on the stream
 * and returns: it begins when what was queued before it on that stream has ended, and what is
 * queued after it begins when the call would have returned: a put when its source may be written
 * again, a get and a wait when the bytes are there. Addresses are of device memory, and symmetric
 * where the calls in kernels (shmemg.h) want them so; any PE is reached that those reach. A launch
 * that the driver refuses shows as its own launches do, in cudaGetLastError().
 *
 * Collectives are below, in shmemg/collectives_on_stream.cuh.
 *
 * Ordering: a put's data are there before the signal of the same call. Puts of a stream reach a PE
 * in any order until a quiet on that stream. Kernels of this PE that a stream orders after a wait
 * see what was put before the signal. */
#ifndef TANADA_COMPAT_SHMEMX_ON_STREAM_CUH
#define TANADA_COMPAT_SHMEMX_ON_STREAM_CUH

#include <shmemg.h>

#include <tanada/device/detail/shmem/collect_on_stream.hpp>

/** cudaStream_t under nvcc. The host executor has one stream: {}. */
typedef tanada::shmem::device::stream shmemx_stream_t;

/** dest at PE `pe`, or dest here from source there. */
inline void shmemx_putmem_on_stream(
    void *dest, const void *source, size_t nelems, int pe, shmemx_stream_t stream) {
  tanada::shmem::device::put_on_stream(dest, source, nelems, pe, stream);
}
inline void shmemx_getmem_on_stream(
    void *dest, const void *source, size_t nelems, int pe, shmemx_stream_t stream) {
  tanada::shmem::device::get_on_stream(dest, source, nelems, pe, stream);
}

/** sig_op: SHMEM_SIGNAL_SET or SHMEM_SIGNAL_ADD. */
inline void shmemx_putmem_signal_on_stream(void *dest,
                                           const void *source,
                                           size_t nelems,
                                           uint64_t *sig_addr,
                                           uint64_t signal,
                                           int sig_op,
                                           int pe,
                                           shmemx_stream_t stream) {
  tanada::shmem::device::put_signal_on_stream(
      dest, source, nelems, {sig_addr, signal, sig_op}, pe, stream);
}
inline void shmemx_signal_op_on_stream(
    uint64_t *sig_addr, uint64_t signal, int sig_op, int pe, shmemx_stream_t stream) {
  tanada::shmem::device::signal_on_stream({sig_addr, signal, sig_op}, pe, stream);
}

/** cmp: SHMEM_CMP_*. The stream stands still until the word of this PE is so. */
inline void shmemx_signal_wait_until_on_stream(uint64_t *sig_addr,
                                               int cmp,
                                               uint64_t cmp_value,
                                               shmemx_stream_t stream) {
  tanada::shmem::device::wait_on_stream(sig_addr, cmp, cmp_value, stream);
}

/** All that kernels and streams of this PE have put so far, by the stream's order, is performed. */
inline void shmemx_quiet_on_stream(shmemx_stream_t stream) {
  tanada::shmem::device::quiet_on_stream(stream);
}

/** Nothing queued after it begins before all PEs' streams have come to theirs; a quiet first. */
inline void shmemx_barrier_all_on_stream(shmemx_stream_t stream) {
  (void)tanada::shmem::device::barrier_on_stream(SHMEM_DEVICE_TEAM_WORLD, stream);
}

#include "shmemg/collectives_on_stream.cuh"

#endif
