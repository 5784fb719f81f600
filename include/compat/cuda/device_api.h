// device_api.h: queries of devices, for the host executor. Each process sees as many devices as a
// node can have, all of them the processors that it runs on. Not for direct inclusion.
#pragma once

#include <stdio.h>

#include <thread>

struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerMultiprocessor, totalConstMem;
  int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsPerMultiProcessor;
  int maxThreadsDim[3], maxGridSize[3];
  int clockRate, memoryClockRate, memoryBusWidth, l2CacheSize;
  int major, minor, multiProcessorCount;
  int canMapHostMemory, unifiedAddressing, managedMemory, concurrentKernels, cooperativeLaunch;
  int pciBusID, pciDeviceID, pciDomainID;
  int integrated, asyncEngineCount, ECCEnabled, computeMode;
};

enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrClockRate = 13,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrUnifiedAddressing = 41,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrManagedMemory = 83,
  cudaDevAttrCooperativeLaunch = 95
};

enum cudaLimit { cudaLimitStackSize = 0, cudaLimitPrintfFifoSize = 1, cudaLimitMallocHeapSize = 2 };
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};

#define cudaDeviceScheduleAuto 0u
#define cudaDeviceScheduleSpin 1u
#define cudaDeviceScheduleYield 2u
#define cudaDeviceScheduleBlockingSync 4u
#define cudaDeviceMapHost 8u

namespace tanada::cuda {

// cudaSetDevice(number of the PE on its node) is how programs choose.
inline constexpr int device_count_max = 256;  // numbers that a program may select

// As many as the launcher has started processes on the node, so that each has its own, and programs
// find as many devices as processes.
inline int device_count() {
  for (const char *name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"}) {
    const char *const text = getenv(name);
    int const count = text != nullptr ? atoi(text) : 0;
    if (count > 0 && count <= device_count_max)
      return count;
  }
  return device_count_max;
}
inline thread_local int current_device = 0;

inline int processor_count() {
  unsigned const count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : int(count);
}

}  // namespace tanada::cuda

inline cudaError_t cudaGetDeviceCount(int *count) {
  *count = ::tanada::cuda::device_count();
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= ::tanada::cuda::device_count_max)
    return ::tanada::cuda::result(cudaErrorInvalidDevice);
  ::tanada::cuda::current_device = device;
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int *device) {
  *device = ::tanada::cuda::current_device;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
  if (device < 0 || device >= ::tanada::cuda::device_count_max)
    return ::tanada::cuda::result(cudaErrorInvalidDevice);
  *properties = cudaDeviceProp{};
  snprintf(properties->name, sizeof properties->name, "Tanada host executor");
  properties->totalGlobalMem = size_t{8} << 30;
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerMultiprocessor = 48 << 10;
  properties->totalConstMem = 64 << 10;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 1024;
  for (int &size : properties->maxThreadsDim)
    size = 1024;
  for (int &size : properties->maxGridSize)
    size = 0x7fffffff;
  properties->clockRate = 1000000;  // clock64() counts nanoseconds
  properties->multiProcessorCount = ::tanada::cuda::processor_count();
  properties->canMapHostMemory = 1;
  properties->unifiedAddressing = 1;
  properties->managedMemory = 1;
  properties->concurrentKernels = 0;
  properties->cooperativeLaunch = 1;
  properties->integrated = 1;
  properties->pciDeviceID = device;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  cudaError_t const error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess)
    return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = int(properties.sharedMemPerBlock);
      break;
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      break;
    case cudaDevAttrClockRate:
      *value = properties.clockRate;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      break;
    case cudaDevAttrComputeCapabilityMajor:
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
    default:
      *value = 1;
  }
  return cudaSuccess;
}
inline cudaError_t cudaDeviceCanAccessPeer(int *can_access, int, int) {
  *can_access = 1;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return cudaSuccess;
}
inline cudaError_t cudaDeviceReset() {
  return cudaDeviceSynchronize();
}
inline cudaError_t cudaSetDeviceFlags(unsigned) {
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) {
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int *version) {
  return cudaDriverGetVersion(version);
}
template <class Kernel>
inline cudaError_t cudaFuncSetAttribute(Kernel *, cudaFuncAttribute, int) {
  return cudaSuccess;
}
template <class Kernel>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel, int, size_t) {
  int const resident = int(::tanada::cuda::resident_blocks_max);
  int const processors = ::tanada::cuda::processor_count();
  *blocks = processors < resident ? resident / processors : 1;
  return cudaSuccess;
}
template <class Kernel>
inline cudaError_t cudaOccupancyMaxPotentialBlockSize(
    int *grid, int *block, Kernel, size_t shared_size = 0, int limit = 0) {
  (void)shared_size;
  *grid = ::tanada::cuda::processor_count();
  *block = limit > 0 && limit < 256 ? limit : 256;
  return cudaSuccess;
}
