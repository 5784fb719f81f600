/* shmemg.h: OpenSHMEM in the memory of devices, after the draft "Auxiliary Specification for GPU
 * Support" 0.1: beside shmem.h.
 *
 * shmemg/host.h has what the host calls; C99 and C++11. shmemg/device.cuh has what kernels call,
 * where there are kernels: under nvcc, and where TND_HOST_EXECUTOR is defined and kernels are
 * functions that the host executor runs; C++17. */
#ifndef TANADA_COMPAT_SHMEMG_H
#define TANADA_COMPAT_SHMEMG_H

#include "shmem.h"

#include "shmemg/handles.h"
#include "shmemg/host.h"

#if defined(__cplusplus) && (defined(__CUDACC__) || defined(TND_HOST_EXECUTOR))
#  include "shmemg/device.cuh"
#endif

#endif
