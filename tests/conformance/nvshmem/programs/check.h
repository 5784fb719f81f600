// check.h: checks of the programs of this folder. A failed check is printed, and counts.
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include <nvshmem.h>
#include <nvshmemx.h>

inline int failures = 0;

#define CHECK(CONDITION)                                                                      \
  do {                                                                                        \
    if (!(CONDITION)) {                                                                       \
      failures++;                                                                             \
      fprintf(stderr, "%s:%d: PE %d: %s\n", __FILE__, __LINE__, nvshmem_my_pe(), #CONDITION); \
    }                                                                                         \
  } while (0)
#define CHECK_CUDA(CALL)                                                                        \
  do {                                                                                          \
    cudaError_t const error = (CALL);                                                           \
    if (error != cudaSuccess) {                                                                 \
      failures++;                                                                               \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #CALL, cudaGetErrorString(error)); \
    }                                                                                           \
  } while (0)

// The elements of device memory, read by the host.
template <class T>
T element(const T *array, size_t index) {
  T value;
  CHECK_CUDA(cudaMemcpy(&value, array + index, sizeof value, cudaMemcpyDefault));
  return value;
}

// Symmetric memory with a value in each element.
template <class T>
T *symmetric_array(size_t count, T value) {
  T *const array = static_cast<T *>(nvshmem_malloc(count * sizeof(T)));
  if (array == nullptr) {
    fprintf(stderr, "no symmetric memory\n");
    exit(1);
  }
  for (size_t i = 0; i < count; i++)
    CHECK_CUDA(cudaMemcpy(array + i, &value, sizeof value, cudaMemcpyDefault));
  nvshmem_barrier_all();
  return array;
}

inline void start() {
  nvshmem_init();
  int device_count = 0;
  CHECK_CUDA(cudaGetDeviceCount(&device_count));
  CHECK_CUDA(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % device_count));
}
inline int end() {
  nvshmem_barrier_all();
  nvshmem_finalize();
  return failures == 0 ? 0 : 1;
}
