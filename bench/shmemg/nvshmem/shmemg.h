// The same programs over NVSHMEM, as a rival: the names that examples and benchmarks here use, in
// that library's spelling. It has no symmetric host memory, so device memory is used instead.
#pragma once

#include <mpi.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <cstdint>

#define SHMEM_CMP_GE NVSHMEM_CMP_GE
#define SHMEM_SIGNAL_SET NVSHMEM_SIGNAL_SET
#define SHMEM_SIGNAL_ADD NVSHMEM_SIGNAL_ADD
#define SHMEM_DEVICE_TEAM_WORLD NVSHMEM_TEAM_WORLD
#define SHMEM_THREAD_SINGLE 0
#define SHMEM_DEVICE_HOST_INIT 0x100
#define SHMEM_DEVICE_KERNEL_INIT 0x200

using shmemx_stream_t = cudaStream_t;

__device__ inline void *shmemg_ptr(const void *dest, int pe) {
  return nvshmem_ptr(dest, pe);
}
__device__ inline void shmemg_fence() {
  nvshmem_fence();
}
__device__ inline void shmemg_quiet() {
  nvshmem_quiet();
}
template <class T>
__device__ inline void shmemg_uint64_atomic_set(T *dest, uint64_t value, int pe) {
  nvshmem_uint64_atomic_set(reinterpret_cast<uint64_t *>(dest), value, pe);
}
template <class T>
__device__ inline void shmemg_uint64_wait_until(T *at, int cmp, uint64_t value) {
  nvshmem_uint64_wait_until(reinterpret_cast<uint64_t *>(at), cmp, value);
}
template <class T>
__device__ inline void shmemg_putmem_signal(
    void *dest, const void *source, size_t size, T *signal, uint64_t value, int op, int pe) {
  nvshmem_putmem_signal(dest, source, size, reinterpret_cast<uint64_t *>(signal), value, op, pe);
}

inline void *shmemg_calloc(size_t count, size_t size) {
  return nvshmem_calloc(count, size);
}
inline void *shmem_calloc(size_t count, size_t size) {
  return nvshmem_calloc(count, size);
}
inline void shmem_barrier_all() {
  nvshmem_barrier_all();
}
inline void shmem_quiet() {
  nvshmem_quiet();
}
inline int shmem_my_pe() {
  return nvshmem_my_pe();
}
inline int shmem_n_pes() {
  return nvshmem_n_pes();
}
inline void shmem_putmem_signal_nbi(
    void *dest, const void *source, size_t size, uint64_t *signal, uint64_t value, int op, int pe) {
  nvshmemx_putmem_signal_nbi_on_stream(dest, source, size, signal, value, op, pe, nullptr);
}
inline void shmem_signal_wait_until(uint64_t *at, int cmp, uint64_t value) {
  nvshmemx_signal_wait_until_on_stream(at, cmp, value, nullptr);
}
inline void shmemx_putmem_signal_on_stream(void *dest,
                                           const void *source,
                                           size_t size,
                                           uint64_t *signal,
                                           uint64_t value,
                                           int op,
                                           int pe,
                                           shmemx_stream_t stream) {
  nvshmemx_putmem_signal_on_stream(dest, source, size, signal, value, op, pe, stream);
}
inline void shmemx_signal_wait_until_on_stream(uint64_t *at,
                                               int cmp,
                                               uint64_t value,
                                               shmemx_stream_t stream) {
  nvshmemx_signal_wait_until_on_stream(at, cmp, value, stream);
}
inline int shmemx_double_sum_reduce_on_stream(nvshmem_team_t team,
                                              double *dest,
                                              const double *source,
                                              size_t nreduce,
                                              shmemx_stream_t stream) {
  return nvshmemx_double_sum_reduce_on_stream(team, dest, source, nreduce, stream);
}

// One GPU for each; the job is MPI's.
inline int shmem_init_thread(int requested, int *provided) {
  int rank = 0, devices = 0;
  MPI_Init(nullptr, nullptr);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (cudaGetDeviceCount(&devices) != cudaSuccess || cudaSetDevice(rank % devices) != cudaSuccess)
    return 1;
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  if (rank == 0)
    nvshmemx_get_uniqueid(&id);
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  int count = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  nvshmemx_set_attr_uniqueid_args(rank, count, &id, &attributes);
  if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes) != 0)
    return 1;
  *provided = requested;
  return 0;
}
inline void shmem_finalize() {
  nvshmem_finalize();
  MPI_Finalize();
}
inline void shmem_global_exit(int code) {
  nvshmem_global_exit(code);
}
