// cuda_runtime_api.h: the part of CUDA's runtime that programs of the host executor use: memory,
// streams, events and devices. Memory of the device is memory of the process.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "launch.h"

// ---- memory

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4
};

#define cudaHostAllocDefault 0u
#define cudaHostAllocPortable 1u
#define cudaHostAllocMapped 2u
#define cudaHostAllocWriteCombined 4u
#define cudaHostRegisterDefault 0u
#define cudaHostRegisterPortable 1u
#define cudaHostRegisterMapped 2u
#define cudaMemAttachGlobal 1u

namespace tanada::cuda {

inline cudaError_t allocate(void **result_ptr, size_t size) {
  if (result_ptr == nullptr)
    return result(cudaErrorInvalidValue);
  *result_ptr = nullptr;
  if (size == 0)
    return cudaSuccess;
  return result(posix_memalign(result_ptr, 256, size) == 0 ? cudaSuccess
                                                           : cudaErrorMemoryAllocation);
}

}  // namespace tanada::cuda

template <class T>
inline cudaError_t cudaMalloc(T **ptr, size_t size) {
  void *memory = nullptr;
  cudaError_t const error = ::tanada::cuda::allocate(&memory, size);
  if (ptr != nullptr)
    *ptr = static_cast<T *>(memory);
  return error;
}
template <class T>
inline cudaError_t cudaMallocHost(T **ptr, size_t size, unsigned = 0) {
  return cudaMalloc(ptr, size);
}
template <class T>
inline cudaError_t cudaHostAlloc(T **ptr, size_t size, unsigned) {
  return cudaMalloc(ptr, size);
}
template <class T>
inline cudaError_t cudaMallocManaged(T **ptr, size_t size, unsigned = cudaMemAttachGlobal) {
  return cudaMalloc(ptr, size);
}
template <class T>
inline cudaError_t cudaMallocAsync(T **ptr, size_t size, cudaStream_t) {
  return cudaMalloc(ptr, size);
}
// As CUDA, waits for the kernels, which may use the memory.
inline cudaError_t cudaFree(void *ptr) {
  (void)::tanada::cuda::wait();
  free(ptr);
  return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void *ptr) {
  return cudaFree(ptr);
}
inline cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream) {
  return ::tanada::cuda::enqueue(stream, [=] { free(ptr); });
}
inline cudaError_t cudaHostRegister(void *, size_t, unsigned) {
  return cudaSuccess;
}
inline cudaError_t cudaHostUnregister(void *) {
  return cudaSuccess;
}
template <class T>
inline cudaError_t cudaHostGetDevicePointer(T **device, void *host, unsigned) {
  *device = static_cast<T *>(host);
  return cudaSuccess;
}

inline cudaError_t cudaMemcpyAsync(
    void *target, const void *source, size_t size, cudaMemcpyKind, cudaStream_t stream = nullptr) {
  if (size == 0)
    return cudaSuccess;
  return ::tanada::cuda::enqueue(stream, [=] { memmove(target, source, size); });
}
inline cudaError_t cudaMemcpy(void *target, const void *source, size_t size, cudaMemcpyKind) {
  (void)::tanada::cuda::wait();
  if (size != 0)
    memmove(target, source, size);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyPeerAsync(
    void *target, int, const void *source, int, size_t size, cudaStream_t stream = nullptr) {
  return cudaMemcpyAsync(target, source, size, cudaMemcpyDefault, stream);
}
inline cudaError_t cudaMemcpy2D(void *target,
                                size_t target_pitch,
                                const void *source,
                                size_t source_pitch,
                                size_t width,
                                size_t height,
                                cudaMemcpyKind) {
  (void)::tanada::cuda::wait();
  for (size_t i = 0; i < height; i++)
    memmove(static_cast<char *>(target) + i * target_pitch,
            static_cast<const char *>(source) + i * source_pitch,
            width);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void *target,
                                   int value,
                                   size_t size,
                                   cudaStream_t stream = nullptr) {
  return ::tanada::cuda::enqueue(stream, [=] { memset(target, value, size); });
}
inline cudaError_t cudaMemset(void *target, int value, size_t size) {
  (void)::tanada::cuda::wait();
  memset(target, value, size);
  return cudaSuccess;
}

// Variables that are marked __device__ or __constant__ are those of the process.
template <class T>
inline cudaError_t cudaMemcpyToSymbol(T &symbol,
                                      const void *source,
                                      size_t size,
                                      size_t offset = 0,
                                      cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  return cudaMemcpy(reinterpret_cast<char *>(&symbol) + offset, source, size, kind);
}
template <class T>
inline cudaError_t cudaMemcpyFromSymbol(void *target,
                                        const T &symbol,
                                        size_t size,
                                        size_t offset = 0,
                                        cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  return cudaMemcpy(target, reinterpret_cast<const char *>(&symbol) + offset, size, kind);
}
template <class T>
inline cudaError_t cudaGetSymbolAddress(void **address, const T &symbol) {
  *address = const_cast<void *>(static_cast<const void *>(&symbol));
  return cudaSuccess;
}

enum cudaMemoryType {
  cudaMemoryTypeUnregistered = 0,
  cudaMemoryTypeHost = 1,
  cudaMemoryTypeDevice = 2,
  cudaMemoryTypeManaged = 3
};
struct cudaPointerAttributes {
  enum cudaMemoryType type;
  int device;
  void *devicePointer, *hostPointer;
};
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *ptr) {
  void *const address = const_cast<void *>(ptr);
  *attributes = {cudaMemoryTypeManaged, 0, address, address};
  return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(size_t *free_size, size_t *total_size) {
  *free_size = size_t{8} << 30;
  *total_size = *free_size;
  return cudaSuccess;
}

// ---- streams and events

#define cudaStreamDefault 0u
#define cudaStreamNonBlocking 1u
#define cudaStreamLegacy (reinterpret_cast<cudaStream_t>(1))
#define cudaStreamPerThread (reinterpret_cast<cudaStream_t>(2))

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  *stream = new CUstream_st{flags};
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t *stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
inline cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = 0;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return ::tanada::cuda::wait();
}
inline cudaError_t cudaStreamQuery(cudaStream_t) {
  return ::tanada::simt::host::synchronize(0) ? cudaSuccess : cudaErrorNotReady;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() {
  return ::tanada::cuda::wait();
}
inline cudaError_t cudaThreadSynchronize() {
  return cudaDeviceSynchronize();
}

struct CUevent_st {
  std::mutex mutex;
  unsigned long long time_ns = 0;
  unsigned long long recorded = 0, reached = 0;  // cudaEventRecord() that were called, and ran
};
typedef std::shared_ptr<CUevent_st> *cudaEvent_t;

#define cudaEventDefault 0u
#define cudaEventBlockingSync 1u
#define cudaEventDisableTiming 2u

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
  *event = new std::shared_ptr<CUevent_st>{std::make_shared<CUevent_st>()};
  return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t *event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr) {
  std::shared_ptr<CUevent_st> const state = *event;
  {
    std::lock_guard const lock{state->mutex};
    state->recorded++;
  }
  return ::tanada::cuda::enqueue(stream, [state] {
    std::lock_guard const lock{state->mutex};
    state->time_ns = ::tanada::simt::host::now_ns();
    state->reached++;
  });
}
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
  std::lock_guard const lock{(*event)->mutex};
  return (*event)->recorded == (*event)->reached ? cudaSuccess : cudaErrorNotReady;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return cudaEventQuery(event) == cudaSuccess ? cudaSuccess : ::tanada::cuda::wait();
}
inline cudaError_t cudaEventElapsedTime(float *elapsed_ms, cudaEvent_t start, cudaEvent_t end) {
  if (cudaEventQuery(start) != cudaSuccess || cudaEventQuery(end) != cudaSuccess)
    return ::tanada::cuda::result(cudaErrorNotReady);
  *elapsed_ms = float(double((long long)((*end)->time_ns - (*start)->time_ns)) / 1e6);
  return cudaSuccess;
}
// All streams run in the order of the calls.
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) {
  return cudaSuccess;
}

// ---- graphs: none

typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2
};
inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  return ::tanada::cuda::result(cudaErrorNotSupported);
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *) {
  return ::tanada::cuda::result(cudaErrorNotSupported);
}
template <class... Rest>
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *, cudaGraph_t, Rest...) {
  return ::tanada::cuda::result(cudaErrorNotSupported);
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  return ::tanada::cuda::result(cudaErrorNotSupported);
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t) {
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) {
  return cudaSuccess;
}

#include "device_api.h"
