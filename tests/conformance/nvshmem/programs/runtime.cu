// CUDA's runtime on the host executor: memory, streams, events, launches in each form, warps,
// shared memory, atomics, grids that synchronize, and half precision. One process.
#include <cooperative_groups.h>
#include <cub/cub.cuh>
#include <cuda_bf16.h>
#include <cuda.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define CHECK(CONDITION)                                              \
  do {                                                                \
    if (!(CONDITION)) {                                               \
      failures++;                                                     \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #CONDITION); \
    }                                                                 \
  } while (0)

constexpr int threads = 96;

__device__ int doubled(int value) {
  return 2 * value;
}

// A tree in shared memory, of one variable and two arrays.
__global__ void __launch_bounds__(1024) sum_in_block(const int *numbers, int *sum, int count) {
  __shared__ int parts[threads], spare[2][3];
  __shared__ int total;
  int const i = threadIdx.x + blockDim.x * threadIdx.y;
  parts[i] = i < count ? doubled(numbers[i]) : 0;
  if (i == 0)
    spare[1][2] = 0;
  __syncthreads();
  for (int step = 64; step > 0; step /= 2) {
    if (i < step && i + step < threads)
      parts[i] += parts[i + step];
    __syncthreads();
  }
  if (i == 0)
    total = parts[0] + spare[1][2];
  __syncthreads();
  if (i == threads - 1)
    *sum = total;
}

template <class T, int Factor = 3>
__global__ void scale(T *numbers, T summand) {
  extern __shared__ T copies[];
  copies[threadIdx.x] = numbers[threadIdx.x];
  __syncthreads();
  numbers[threadIdx.x] = copies[blockDim.x - 1 - threadIdx.x] * Factor + summand;
}

// Two kernels of one name.
__global__ void add_to(int *target, int value) {
  *target += value;
}
__global__ void add_to(int *target, const int *value, int factor = 2) {
  *target += *value * factor;
}

#define DEFINE_SETTER(NAME, VALUE)    \
  __global__ void NAME(int *target) { \
    target[blockIdx.x] = VALUE;       \
  }
DEFINE_SETTER(set_seven, 7)

// One lane polls for what another lane of its block stores.
__global__ void poll(volatile int *flag, int *result) {
  if (threadIdx.x == 0) {
    while (*flag == 0)
      ;
    do {
      *result = *flag;
    } while (*result != 1);
  } else if (threadIdx.x == 40) {
    *flag = 1;
  }
}

__global__ void shuffle(int *results) {
  int const lane = threadIdx.x;
  int sum = lane;
  for (int step = 16; step > 0; step /= 2)
    sum += __shfl_down_sync(0xffffffff, sum, step);
  results[lane] = __shfl_sync(0xffffffff, sum, 0);
  if (lane == 0)
    results[32] = __popc(0xf0f0) + __ffs(8) + __clz(1);
  unsigned const votes = __ballot_sync(0xffffffff, lane % 2);
  if (lane == 1)
    results[33] = votes == 0xaaaaaaaa ? 1 : 0;
}

__global__ void count_up(unsigned *counter, int *sum, float *number, int limit) {
  atomicAdd(sum, 2);
  atomicInc(counter, unsigned(limit));
  atomicAdd(number, 0.5f);
  atomicMax(sum + 1, int(threadIdx.x));
}

// Each block adds what the block before it wrote in the step before.
__global__ void steps_of_grid(int *values, int count) {
  cooperative_groups::grid_group const grid = cooperative_groups::this_grid();
  for (int i = 0; i < count; i++) {
    int const neighbour = values[(blockIdx.x + 1) % gridDim.x];
    grid.sync();
    if (threadIdx.x == 0)
      values[blockIdx.x] += neighbour;
    grid.sync();
  }
}

static void test_launches() {
  int *numbers = NULL, *sum = NULL;
  CHECK(cudaMalloc(&numbers, threads * sizeof(int)) == cudaSuccess);
  CHECK(cudaMallocManaged(&sum, 2 * sizeof(int)) == cudaSuccess);
  int host[threads];
  for (int i = 0; i < threads; i++)
    host[i] = i;
  CHECK(cudaMemcpy(numbers, host, sizeof host, cudaMemcpyHostToDevice) == cudaSuccess);
  dim3 const blockDim(48, 2);  // a name that kernels have, too
  sum_in_block<<<1, blockDim>>>(numbers, sum, threads);
  scale<<<1, threads, threads * sizeof(int)>>>(numbers, 1);
  scale<int, 2><<<dim3(1), dim3(threads), threads * sizeof(int), 0>>>(numbers, 0);
  set_seven<<<2, 1>>>(sum + 0 * threads);
  CHECK(cudaDeviceSynchronize() == cudaSuccess && cudaGetLastError() == cudaSuccess);
  CHECK(sum[0] == 7 && sum[1] == 7);
  add_to<<<1, 1>>>(sum, 3);
  add_to<<<1, 1>>>(sum, sum + 1);
  CHECK(cudaDeviceSynchronize() == cudaSuccess && sum[0] == 24);
  CHECK(cudaMemcpy(host, numbers, sizeof host, cudaMemcpyDeviceToHost) == cudaSuccess);
  for (int i = 0; i < threads; i++)
    CHECK(host[i] == 2 * (3 * i + 1));
  int count = threads;
  void *arguments[] = {&numbers, &sum, &count};
  CHECK(cudaLaunchKernel((const void *)sum_in_block, 1, threads, arguments, 0, 0) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(sum[0] == 2 * 2 * (3 * (threads - 1) * threads / 2 + threads));
  int summand = 5;
  void *others[] = {&numbers, &summand};
  CHECK(cudaLaunchKernel((const void *)scale<int, 1>, 1, 1, others, 64, 0) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(numbers[0] == 7);
  CHECK(cudaLaunchKernel((const void *)&failures, 1, 1, arguments, 0, 0) ==
        cudaErrorInvalidDeviceFunction);
  CHECK(cudaGetLastError() == cudaErrorInvalidDeviceFunction);
  set_seven<<<1, 2048>>>(sum);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaFree(numbers) == cudaSuccess && cudaFree(sum) == cudaSuccess);
}

static void test_lanes() {
  int *results = NULL;
  CHECK(cudaMallocManaged(&results, 64 * sizeof(int)) == cudaSuccess);
  CHECK(cudaMemset(results, 0, 64 * sizeof(int)) == cudaSuccess);
  shuffle<<<1, 32>>>(results);
  poll<<<1, 64>>>(results + 50, results + 51);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  for (int lane = 0; lane < 32; lane++)
    CHECK(results[lane] == 31 * 32 / 2);
  CHECK(results[32] == 8 + 4 + 31 && results[33] == 1 && results[51] == 1);
  unsigned *const counter = (unsigned *)(results + 40);
  float *const number = (float *)(results + 44);
  CHECK(cudaMemset(results, 0, 64 * sizeof(int)) == cudaSuccess);
  count_up<<<4, 64>>>(counter, results, number, 99);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(results[0] == 2 * 256 && results[1] == 63 && *counter == 256 % 100 && *number == 128.0f);
  CHECK(cudaMemset(results, 0, 64 * sizeof(int)) == cudaSuccess);
  results[0] = 1;
  int count = 8;
  void *arguments[] = {&results, &count};
  CHECK(cudaLaunchCooperativeKernel(steps_of_grid, 8, 32, arguments, 0, 0) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  int total = 0;
  for (int i = 0; i < 8; i++)
    total += results[i];
  CHECK(total == 256);  // each step doubles the sum
  CHECK(cudaFree(results) == cudaSuccess);
}

static void test_streams() {
  cudaStream_t stream;
  cudaEvent_t start, stop;
  int *memory = NULL;
  int value = 0;
  float elapsed_ms = -1;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  CHECK(cudaEventCreate(&start) == cudaSuccess && cudaEventCreate(&stop) == cudaSuccess);
  CHECK(cudaMalloc(&memory, sizeof value) == cudaSuccess);
  CHECK(cudaEventRecord(start, stream) == cudaSuccess);
  set_seven<<<1, 1, 0, stream>>>(memory);
  CHECK(cudaMemcpyAsync(&value, memory, sizeof value, cudaMemcpyDeviceToHost, stream) ==
        cudaSuccess);
  CHECK(cudaEventRecord(stop, stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(value == 7);
  CHECK(cudaEventQuery(stop) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&elapsed_ms, start, stop) == cudaSuccess && elapsed_ms >= 0);
  CHECK(cudaEventDestroy(start) == cudaSuccess && cudaEventDestroy(stop) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess && cudaFree(memory) == cudaSuccess);
  int device = -1, count = 0;
  CHECK(cudaSetDevice(1) == cudaSuccess && cudaGetDevice(&device) == cudaSuccess && device == 1);
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess && count == 1);  // of one process
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  CUmodule module = NULL;
  CHECK(cuModuleLoad(&module, "kernels.cubin") == CUDA_ERROR_NOT_SUPPORTED);
}

__global__ void reduce(const int *numbers, int *results) {
  using block_reduce = cub::BlockReduce<int, 16, cub::BLOCK_REDUCE_WARP_REDUCTIONS, 6>;
  using warp_reduce = cub::WarpReduce<int>;
  using part_reduce = cub::WarpReduce<int, 8>;
  __shared__ typename block_reduce::TempStorage block_storage;
  __shared__ typename warp_reduce::TempStorage warp_storage[3];
  __shared__ typename part_reduce::TempStorage part_storage[12];
  int const i = threadIdx.x + blockDim.x * threadIdx.y;
  int const sum = block_reduce(block_storage).Sum(numbers[i]);
  __syncthreads();
  int pair[2] = {numbers[i], -numbers[i]};
  int const least = block_reduce(block_storage).Reduce(pair, cub::Min{});
  __syncthreads();
  int const first_sum = block_reduce(block_storage).Sum(numbers[i], 3);
  int const largest = warp_reduce(warp_storage[i / 32]).Reduce(numbers[i], cub::Max{});
  int const part = part_reduce(part_storage[i / 8]).Sum(numbers[i]);
  if (i == 0) {
    results[0] = sum;
    results[1] = least;
    results[2] = first_sum;
  }
  if (i % 32 == 0)
    results[3 + i / 32] = largest;
  if (i % 8 == 0)
    results[6 + i / 8] = part;
}

static void test_reductions() {
  int numbers[threads], results[18], *memory = NULL;
  for (int i = 0; i < threads; i++)
    numbers[i] = i;
  CHECK(cudaMalloc(&memory, sizeof numbers + sizeof results) == cudaSuccess);
  CHECK(cudaMemcpy(memory, numbers, sizeof numbers, cudaMemcpyHostToDevice) == cudaSuccess);
  reduce<<<1, dim3(16, 6)>>>(memory, memory + threads);
  CHECK(cudaMemcpy(results, memory + threads, sizeof results, cudaMemcpyDeviceToHost) ==
        cudaSuccess);
  CHECK(results[0] == threads * (threads - 1) / 2 && results[1] == 1 - threads && results[2] == 3);
  for (int warp = 0; warp < 3; warp++)
    CHECK(results[3 + warp] == 32 * warp + 31);
  for (int part = 0; part < 12; part++)
    CHECK(results[6 + part] == 64 * part + 28);
  CHECK(cudaFree(memory) == cudaSuccess);
}

static void test_numbers() {
  float const exact[] = {0.0f, 1.0f, -2.5f, 65504.0f, 6.103515625e-05f, 5.9604644775390625e-08f};
  for (float value : exact)
    CHECK(float(half(value)) == value);
  CHECK(isinf(float(half(65520.0f))) && float(half(65519.0f)) == 65504.0f);
  CHECK(float(half(1.0f + 1.0f / 2048)) == 1.0f);               // a tie, to even
  CHECK(float(half(1.0f + 3.0f / 2048)) == 1.0f + 1.0f / 512);  // a tie, to even
  CHECK(float(half(2.9e-08f)) == 0.0f && float(half(3.0e-08f)) == 5.9604644775390625e-08f);
  CHECK(isnan(float(half(NAN))) && isnan(float(__nv_bfloat16(NAN))));
  CHECK(float(__nv_bfloat16(1.0f + 1.0f / 256)) == 1.0f);
  CHECK(float(__nv_bfloat16(1.0f + 3.0f / 256)) == 1.0f + 1.0f / 64);
  CHECK(float(half(0.25f) + half(0.5f)) == 0.75f);
  CHECK(__int_as_float(0x40490fdb) > 3.14159f && __float_as_uint(-0.0f) == 0x80000000u);
  CHECK(__hiloint2double(__double2hiint(-2.5), __double2loint(-2.5)) == -2.5);
  CHECK(__brev(0x80000001u) == 0x80000001u && __brev(2) == 0x40000000u);
  CHECK(__mulhi(-(1 << 30), 8) == -2 && __umulhi(1u << 31, 6) == 3);
  CHECK(__umul64hi(1ull << 63, 6) == 3 && __float2int_rn(2.5f) == 2 && __float2int_ru(2.1f) == 3);
  CHECK(__int2float_rd(16777217) == 16777216.0f && __int2float_ru(16777217) == 16777218.0f);
  CHECK(__int2float_rz(-16777217) == -16777216.0f && __int2float_rn(16777219) == 16777220.0f);
  CHECK(__saturatef(NAN) == 0 && __saturatef(7) == 1 && rsqrtf(4) == 0.5f);
  CHECK(max(size_t{1}, sizeof(double) / 16) == 1 && min(2, 3u) == 2u);
}

int main() {
  test_launches();
  test_lanes();
  test_streams();
  test_reductions();
  test_numbers();
  return failures == 0 ? 0 : 1;
}
