// cuda_error.h: the statuses of the runtime's calls, with CUDA's numbers, for the host executor.
#pragma once

#include "host_defines.h"

// Number, name, text.
#define TND_CUDA_ERRORS_(X)                                                                     \
  X(0, cudaSuccess, "no error")                                                                 \
  X(1, cudaErrorInvalidValue, "invalid argument")                                               \
  X(2, cudaErrorMemoryAllocation, "out of memory")                                              \
  X(3, cudaErrorInitializationError, "initialization error")                                    \
  X(9, cudaErrorInvalidConfiguration, "invalid configuration argument")                         \
  X(13, cudaErrorInvalidSymbol, "invalid device symbol")                                        \
  X(21, cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")                   \
  X(35, cudaErrorInsufficientDriver, "CUDA driver version is insufficient")                     \
  X(98, cudaErrorInvalidDeviceFunction, "the function is no kernel of the host executor")       \
  X(100, cudaErrorNoDevice, "no CUDA-capable device is detected")                               \
  X(101, cudaErrorInvalidDevice, "invalid device ordinal")                                      \
  X(217, cudaErrorPeerAccessUnsupported, "peer access is not supported")                        \
  X(400, cudaErrorInvalidResourceHandle, "invalid resource handle")                             \
  X(600, cudaErrorNotReady, "device not ready")                                                 \
  X(704, cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled")                   \
  X(705, cudaErrorPeerAccessNotEnabled, "peer access has not been enabled")                     \
  X(719, cudaErrorLaunchFailure, "unspecified launch failure")                                  \
  X(720, cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch")           \
  X(801, cudaErrorNotSupported, "operation not supported by the host executor")                 \
  X(900, cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing") \
  X(999, cudaErrorUnknown, "unknown error")

enum cudaError {
#define TND_CUDA_ERROR_(NUMBER, NAME, TEXT) NAME = NUMBER,
  TND_CUDA_ERRORS_(TND_CUDA_ERROR_)
#undef TND_CUDA_ERROR_
};
typedef enum cudaError cudaError_t;

inline const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define TND_CUDA_ERROR_(NUMBER, NAME, TEXT) \
  case NAME:                                \
    return TEXT;
    TND_CUDA_ERRORS_(TND_CUDA_ERROR_)
#undef TND_CUDA_ERROR_
  }
  return "unrecognized error code";
}
inline const char *cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define TND_CUDA_ERROR_(NUMBER, NAME, TEXT) \
  case NAME:                                \
    return #NAME;
    TND_CUDA_ERRORS_(TND_CUDA_ERROR_)
#undef TND_CUDA_ERROR_
  }
  return "unrecognized error code";
}

namespace tanada::cuda {

inline thread_local cudaError_t last_error = cudaSuccess;

// Keeps an error for cudaGetLastError().
inline cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess)
    last_error = error;
  return error;
}

}  // namespace tanada::cuda

inline cudaError_t cudaPeekAtLastError() {
  return ::tanada::cuda::last_error;
}
inline cudaError_t cudaGetLastError() {
  cudaError_t const error = ::tanada::cuda::last_error;
  ::tanada::cuda::last_error = cudaSuccess;
  return error;
}
