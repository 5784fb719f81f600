// parts/start.h: other starts, launches of kernels that communicate, and queries. Not for direct
// inclusion.
#pragma once

#include <cuda.h>

/// Programs print their own errors by it.
#define NVSHMEMI_ERROR_PRINT(...) fprintf(stderr, __VA_ARGS__)

// ---- starts. All of them need the launcher: docs/launch.md.

inline int nvshmemx_init_attr(unsigned flags, nvshmemx_init_attr_t *attributes) {
  return tanada::nvshmem::start_with(flags, attributes);
}
inline int nvshmemx_hostlib_init_attr(unsigned flags, nvshmemx_init_attr_t *attributes) {
  return nvshmemx_init_attr(flags, attributes);
}
inline void nvshmemx_hostlib_finalize() {
  nvshmem_finalize();
}
inline int nvshmemx_init_status() {
  int is_initialized = 0;
  shmem_query_initialized(&is_initialized);
  return is_initialized != 0 ? NVSHMEM_STATUS_FULL_MPG : NVSHMEM_STATUS_NOT_INITIALIZED;
}
inline int nvshmemx_get_uniqueid(nvshmemx_uniqueid_t *id) {
  *id = NVSHMEMX_UNIQUEID_INITIALIZER;
  return NVSHMEMX_SUCCESS;
}
inline int nvshmemx_set_attr_uniqueid_args(int myrank,
                                           int nranks,
                                           const nvshmemx_uniqueid_t *id,
                                           nvshmemx_init_attr_t *attributes) {
  if (attributes == nullptr || nranks <= 0 || myrank < 0 || myrank >= nranks)
    return NVSHMEMX_ERROR_INVALID_VALUE;
  attributes->args.uid_args = {1, const_cast<nvshmemx_uniqueid_t *>(id), myrank, nranks};
  return NVSHMEMX_SUCCESS;
}
inline int nvshmemx_set_attr_mpi_comm_args(void *mpi_comm, nvshmemx_init_attr_t *attributes) {
  if (mpi_comm == nullptr || attributes == nullptr)
    return NVSHMEMX_ERROR_INVALID_VALUE;
  attributes->mpi_comm = mpi_comm;
  return NVSHMEMX_SUCCESS;
}
inline void nvshmemx_vendor_get_version_info(int *major, int *minor, int *patch) {
  *major = NVSHMEM_VENDOR_MAJOR_VERSION;
  *minor = NVSHMEM_VENDOR_MINOR_VERSION;
  *patch = NVSHMEM_VENDOR_PATCH_VERSION;
}
inline int nvshmemx_my_pe(nvshmem_team_t team) {
  return nvshmem_team_my_pe(team);
}
inline int nvshmemx_n_pes(nvshmem_team_t team) {
  return nvshmem_team_n_pes(team);
}

// ---- modules of CUDA's driver interface: their kernels do not know the job

inline int nvshmemx_cumodule_init(CUmodule) {
  fprintf(stderr, "nvshmemx_cumodule_init: not available: link the kernels with the program\n");
  return NVSHMEMX_ERROR_NOT_SUPPORTED;
}
inline int nvshmemx_cumodule_finalize(CUmodule) {
  return NVSHMEMX_ERROR_NOT_SUPPORTED;
}
inline int nvshmemx_culibrary_init(CUlibrary) {
  fprintf(stderr, "nvshmemx_culibrary_init: not available: link the kernels with the program\n");
  return NVSHMEMX_ERROR_NOT_SUPPORTED;
}
inline int nvshmemx_culibrary_finalize(CUlibrary) {
  return NVSHMEMX_ERROR_NOT_SUPPORTED;
}

// ---- launches of kernels that wait for other PEs: all blocks run at the same time

namespace tanada::nvshmem {

inline int grid_size_max(const void *kernel, dim3 block, size_t shared_size, int *grid_size) {
  int device = 0, processors = 0, blocks = 1;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
    return NVSHMEMX_ERROR_INTERNAL;
  int const threads = int(block.x * block.y * block.z);
  if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared_size) !=
      cudaSuccess)
    return NVSHMEMX_ERROR_INVALID_VALUE;
  *grid_size = processors * blocks;
  return *grid_size > 0 ? NVSHMEMX_SUCCESS : NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED;
}

}  // namespace tanada::nvshmem

inline int nvshmemx_collective_launch_query_gridsize(
    const void *func, dim3 block, void **, size_t shared_size, int *grid_size) {
  return tanada::nvshmem::grid_size_max(func, block, shared_size, grid_size);
}
// A grid of no blocks: as many as run at the same time.
inline int nvshmemx_collective_launch(
    const void *func, dim3 grid, dim3 block, void **args, size_t shared_size, cudaStream_t stream) {
  if (grid.x == 0) {
    int grid_size = 0;
    int const code = tanada::nvshmem::grid_size_max(func, block, shared_size, &grid_size);
    if (code != NVSHMEMX_SUCCESS)
      return code;
    grid = dim3(unsigned(grid_size));
  }
  return cudaLaunchCooperativeKernel(func, grid, block, args, shared_size, stream) == cudaSuccess
             ? NVSHMEMX_SUCCESS
             : NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED;
}
