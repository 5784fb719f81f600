/* bench/shmemg/pairs_cuda.c: pairs_device.h on GPUs. */
#include "pairs_device.h"

#include <cuda_runtime_api.h>

#include "pairs.h"

static cudaStream_t stream;

static void check(cudaError_t code, const char *call) {
  if (code == cudaSuccess)
    return;
  fprintf(stderr, "pairs_mpi: %s: %s\n", call, cudaGetErrorString(code));
  exit(1);
}

/* This rank's device is the first, and the next one, which it maps if it can, the second. */
struct pairs_memory pairs_device_open(int me) {
  struct pairs_memory memory;
  int count = 0, can_map = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  int const own = me % count, next = (own + 1) % count;
  check(cudaSetDevice(next), "cudaSetDevice");
  check(cudaMalloc((void **)&memory.devices[1], pairs_size_max), "cudaMalloc");
  check(cudaSetDevice(own), "cudaSetDevice");
  check(cudaMalloc((void **)&memory.devices[0], pairs_size_max), "cudaMalloc");
  if (next != own && cudaDeviceCanAccessPeer(&can_map, own, next) == cudaSuccess && can_map)
    check(cudaDeviceEnablePeerAccess(next, 0), "cudaDeviceEnablePeerAccess");
  check(cudaMallocHost((void **)&memory.host_local, pairs_size_max), "cudaMallocHost");
  check(cudaMallocHost((void **)&memory.host_remote, pairs_size_max), "cudaMallocHost");
  check(cudaMemset(memory.devices[0], 1, pairs_size_max), "cudaMemset");
  check(cudaMemset(memory.devices[1], 1, pairs_size_max), "cudaMemset");
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return memory;
}

void pairs_device_copy(char *to, const char *from, size_t size) {
  check(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

void pairs_device_wait(void) {
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}
