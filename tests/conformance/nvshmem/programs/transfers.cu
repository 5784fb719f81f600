// Blocks, rows, single elements and signals, by a thread, a warp, a block, host code and a stream:
// each PE writes to the next one and reads from it.
#include "check.h"

namespace {

constexpr int count = 64;

struct peers {
  int me, next, previous;
};
peers own_peers() {
  int const me = nvshmem_my_pe(), total = nvshmem_n_pes();
  return {me, (me + 1) % total, (me + total - 1) % total};
}

}  // namespace

__global__ void put_rows(int *target, const int *source, int peer) {
  if (threadIdx.x == 0) {
    nvshmem_int_put(target, source, 8, peer);
    nvshmem_int_p(target + 8, source[8], peer);
    nvshmem_int_iput(target + 9, source + 9, 2, 2, 3, peer);  // 9, 11, 13
    nvshmem_put32(target + 16, source + 16, 8, peer);
  }
  if (threadIdx.x < 32)
    nvshmemx_int_put_warp(target + 24, source + 24, 20, peer);
  __syncthreads();
  nvshmemx_int_put_nbi_block(target + 44, source + 44, 20, peer);
  nvshmem_quiet();
}
__global__ void get_rows(int *target, const int *source, int peer) {
  nvshmemx_int_get_block(target, source, 32, peer);
  if (threadIdx.x < 32)
    nvshmemx_getmem_warp(target + 32, source + 32, 16 * sizeof(int), peer);
  if (threadIdx.x == 0) {
    nvshmem_getmem_nbi(target + 48, source + 48, 8 * sizeof(int), peer);
    nvshmem_quiet();
    for (int i = 56; i < count; i++)
      target[i] = nvshmem_int_g(source + i, peer);
  }
}
__global__ void put_with_signal(int *target, const int *source, uint64_t *arrived, int peer) {
  nvshmemx_int_put_signal_block(target, source, count, arrived, 5, NVSHMEM_SIGNAL_ADD, peer);
  if (threadIdx.x == 0)
    nvshmemx_signal_op(arrived, 2, NVSHMEM_SIGNAL_ADD, peer);
}
__global__ void wait_for_signal(uint64_t *arrived, uint64_t *last) {
  *last = nvshmem_signal_wait_until(arrived, NVSHMEM_CMP_GE, 7);
}

namespace {

void check_array(const int *array, int first) {
  for (int i = 0; i < count; i++)
    CHECK(element(array, i) == first + i);
}

int *numbered_array(int first) {
  int *const array = symmetric_array(count, 0);
  for (int i = 0; i < count; i++) {
    int const value = first + i;
    CHECK_CUDA(cudaMemcpy(array + i, &value, sizeof value, cudaMemcpyDefault));
  }
  nvshmem_barrier_all();
  return array;
}

void test_puts_of_kernels(const int *source, const peers &pes) {
  int *const target = symmetric_array(count, -1);
  put_rows<<<1, 64>>>(target, source, pes.next);
  CHECK_CUDA(cudaDeviceSynchronize());
  nvshmem_barrier_all();
  for (int i = 0; i < count; i++)
    CHECK(element(target, i) ==
          (i == 10 || i == 12 || i == 14 || i == 15 ? -1 : pes.previous * 1000 + i));
  nvshmem_free(target);
}

void test_gets_of_kernels(const int *source, const peers &pes) {
  int *const target = symmetric_array(count, -1);
  get_rows<<<1, 64>>>(target, source, pes.next);
  CHECK_CUDA(cudaDeviceSynchronize());
  check_array(target, pes.next * 1000);
  nvshmem_free(target);
}

void test_signals_of_kernels(const int *source, const peers &pes) {
  int *const target = symmetric_array(count, -1);
  uint64_t *const arrived = symmetric_array(1, uint64_t{0}),
                  *last = symmetric_array(1, uint64_t{0});
  put_with_signal<<<1, 96>>>(target, source, arrived, pes.next);
  wait_for_signal<<<1, 1>>>(arrived, last);
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK(element(last, 0) == 7);
  check_array(target, pes.previous * 1000);
  nvshmem_free(target);
  nvshmem_free(arrived);
  nvshmem_free(last);
}

__global__ void use_private_memory(int *memory, uint64_t *signal, int me) {
  for (int i = 0; i < 4; i++)
    nvshmem_int_p(memory + i, i, me);
  nvshmem_int_put(memory + 4, memory, 4, me);
  nvshmem_int_iput(memory + 8, memory, 2, 1, 3, me);  // 8, 10, 12
  memory[12] = nvshmem_int_g(memory + 7, me);
  nvshmem_int_atomic_add(memory + 12, 5, me);
  nvshmem_int_put_signal(memory + 13, memory + 2, 1, signal, 3, NVSHMEM_SIGNAL_SET, me);
}

// Calls of kernels to the own PE accept memory that is not symmetric, as programs that run a
// reference by themselves expect.
void test_private_memory(const peers &pes) {
  constexpr int expected[14] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 0, 1, 0, 8, 2};
  int *memory = nullptr;
  uint64_t *signal = nullptr;
  CHECK_CUDA(cudaMalloc(&memory, sizeof expected));
  CHECK_CUDA(cudaMemset(memory, 0, sizeof expected));
  CHECK_CUDA(cudaMalloc(&signal, sizeof *signal));
  use_private_memory<<<1, 1>>>(memory, signal, pes.me);
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < 14; i++)
    CHECK(element(memory, i) == expected[i]);
  CHECK(element(signal, 0) == 3);
  CHECK_CUDA(cudaFree(memory));
  CHECK_CUDA(cudaFree(signal));
}

__global__ void send_nothing(uint64_t *arrived, int next) {
  int *const nothing = nullptr;
  nvshmem_int_put(nothing, nothing, 0, next);
  nvshmemx_int_get_block(nothing, nothing, 0, next);
  nvshmem_int_sum_reduce(NVSHMEM_TEAM_WORLD, nothing, nothing, 0);
  nvshmemx_putmem_signal_block(nothing, nothing, 0, arrived, 1, NVSHMEM_SIGNAL_SET, next);
  nvshmem_signal_wait_until(arrived, NVSHMEM_CMP_EQ, 1);
}

// A PE may have an empty part, and nvshmem_malloc(0) returns a null pointer. The signal arrives.
void test_empty_parts(const peers &pes) {
  uint64_t *const arrived = symmetric_array(1, uint64_t{0});
  send_nothing<<<1, 1>>>(arrived, pes.next);
  CHECK_CUDA(cudaDeviceSynchronize());
  nvshmem_putmem(nvshmem_malloc(0), nullptr, 0, pes.next);
  nvshmem_barrier_all();
  nvshmem_free(arrived);
}

void test_host_code(const int *source, const peers &pes) {
  int *const target = symmetric_array(count, -1);
  nvshmem_int_put(target, source, 16, pes.next);
  nvshmem_putmem(target + 16, source + 16, 16 * sizeof(int), pes.next);
  nvshmem_int_put_nbi(target + 32, source + 32, 31, pes.next);
  nvshmem_quiet();
  nvshmem_int_p(target + 63, pes.me * 1000 + 63, pes.next);
  nvshmem_barrier_all();
  check_array(target, pes.previous * 1000);
  CHECK(nvshmem_int_g(source + 5, pes.next) == pes.next * 1000 + 5);
  nvshmem_int_get(target, source, count, pes.next);
  check_array(target, pes.next * 1000);
  nvshmem_barrier_all();
  nvshmem_free(target);
}

void test_streams(const int *source, const peers &pes) {
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreate(&stream));
  int *const target = symmetric_array(count, -1);
  uint64_t *const arrived = symmetric_array(1, uint64_t{0});
  nvshmemx_int_put_on_stream(target, source, 32, pes.next, stream);
  nvshmemx_quiet_on_stream(stream);
  nvshmemx_putmem_signal_on_stream(
      target + 32, source + 32, 32 * sizeof(int), arrived, 9, NVSHMEM_SIGNAL_SET, pes.next, stream);
  nvshmemx_signal_wait_until_on_stream(arrived, NVSHMEM_CMP_EQ, 9, stream);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  check_array(target, pes.previous * 1000);
  nvshmemx_barrier_all_on_stream(stream);
  nvshmemx_int_get_on_stream(target, source, count, pes.next, stream);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  check_array(target, pes.next * 1000);
  CHECK(nvshmemx_int_g_on_stream(source + 1, pes.next, stream) == pes.next * 1000 + 1);
  nvshmem_barrier_all();
  nvshmem_free(target);
  nvshmem_free(arrived);
  CHECK_CUDA(cudaStreamDestroy(stream));
}

}  // namespace

int main() {
  start();
  peers const pes = own_peers();
  int *const source = numbered_array(pes.me * 1000);
  test_puts_of_kernels(source, pes);
  test_gets_of_kernels(source, pes);
  test_signals_of_kernels(source, pes);
  test_private_memory(pes);
  test_empty_parts(pes);
  test_host_code(source, pes);
  test_streams(source, pes);
  nvshmem_free(source);
  return end();
}
