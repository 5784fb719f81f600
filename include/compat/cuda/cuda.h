// cuda.h: the part of CUDA's driver interface that programs of the host executor use: devices, and
// memory that is created, reserved and mapped in steps. There are no modules of kernels.
#pragma once

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "cuda_runtime_api.h"

#define TND_CUDA_DRIVER_ERRORS_(X)                               \
  X(0, CUDA_SUCCESS, "no error")                                 \
  X(1, CUDA_ERROR_INVALID_VALUE, "invalid argument")             \
  X(2, CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                \
  X(3, CUDA_ERROR_NOT_INITIALIZED, "initialization error")       \
  X(101, CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")    \
  X(400, CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")   \
  X(500, CUDA_ERROR_NOT_FOUND, "named symbol not found")         \
  X(719, CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure") \
  X(801, CUDA_ERROR_NOT_SUPPORTED, "operation not supported by the host executor")

typedef enum cudaError_enum {
#define TND_CUDA_DRIVER_ERROR_(NUMBER, NAME, TEXT) NAME = NUMBER,
  TND_CUDA_DRIVER_ERRORS_(TND_CUDA_DRIVER_ERROR_)
#undef TND_CUDA_DRIVER_ERROR_
} CUresult;

inline CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = nullptr;
  switch (error) {
#define TND_CUDA_DRIVER_ERROR_(NUMBER, NAME, TEXT) \
  case NAME:                                       \
    *text = TEXT;                                  \
    return CUDA_SUCCESS;
    TND_CUDA_DRIVER_ERRORS_(TND_CUDA_DRIVER_ERROR_)
#undef TND_CUDA_DRIVER_ERROR_
  }
  return CUDA_ERROR_INVALID_VALUE;
}

typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUlib_st *CUlibrary;
typedef struct CUfunc_st *CUfunction;
typedef cudaStream_t CUstream;
typedef uintptr_t CUdeviceptr;

inline CUresult cuInit(unsigned) {
  return CUDA_SUCCESS;
}

// ---- devices

typedef enum CUdevice_attribute_enum {
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = 128,
  CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED = 132,
  CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134
} CUdevice_attribute;

inline CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < ::tanada::cuda::device_count_max ? CUDA_SUCCESS
                                                                    : CUDA_ERROR_INVALID_DEVICE;
}
inline CUresult cuDeviceGetCount(int *count) {
  (void)cudaGetDeviceCount(count);
  return CUDA_SUCCESS;
}
inline CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice) {
  *value =
      attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? ::tanada::cuda::processor_count() : 0;
  return CUDA_SUCCESS;
}
inline CUresult cuDeviceTotalMem(size_t *size, CUdevice) {
  size_t free_size = 0;
  (void)cudaMemGetInfo(&free_size, size);
  return CUDA_SUCCESS;
}
inline CUresult cuDriverGetVersion(int *version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
inline CUresult cuCtxGetDevice(CUdevice *device) {
  *device = ::tanada::cuda::current_device;
  return CUDA_SUCCESS;
}
inline CUresult cuCtxSynchronize() {
  (void)cudaDeviceSynchronize();
  return CUDA_SUCCESS;
}

// ---- modules of kernels: none

inline CUresult cuModuleLoad(CUmodule *, const char *) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
inline CUresult cuModuleUnload(CUmodule) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
inline CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
inline CUresult cuLaunchKernel(CUfunction,
                               unsigned,
                               unsigned,
                               unsigned,
                               unsigned,
                               unsigned,
                               unsigned,
                               unsigned,
                               CUstream,
                               void **,
                               void **) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
inline CUresult cuLaunchCooperativeKernel(CUfunction,
                                          unsigned,
                                          unsigned,
                                          unsigned,
                                          unsigned,
                                          unsigned,
                                          unsigned,
                                          unsigned,
                                          CUstream,
                                          void **) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

#include "memory_in_steps.h"
