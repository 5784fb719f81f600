// Atomic updates by kernels and host code, and waits for one word and for several.
#include "check.h"

namespace {

constexpr int threads = 64, word_count = 8;

}  // namespace

__global__ void update_all(uint64_t *sums, int *swapped, float *numbers, int pe_count) {
  for (int pe = 0; pe < pe_count; pe++) {
    nvshmem_uint64_atomic_inc(sums, pe);
    (void)nvshmem_uint64_atomic_fetch_add(sums + 1, 3, pe);
    nvshmem_uint64_atomic_or(sums + 2, uint64_t{1} << threadIdx.x, pe);
    (void)nvshmem_uint64_atomic_fetch_xor(sums + 3, 1, pe);
  }
  int const me = nvshmem_my_pe(), next = (me + 1) % pe_count;
  if (threadIdx.x == 0) {
    (void)nvshmem_int_atomic_compare_swap(swapped, -1, me, next);
    (void)nvshmem_int_atomic_compare_swap(swapped, -2, 100, next);  // has no effect
    nvshmem_int_atomic_set(swapped + 1, me + 10, next);
    (void)nvshmem_float_atomic_swap(numbers, float(me) + 0.5f, next);
  }
  nvshmem_quiet();
}

// Each PE sets its words at all others; `result` has what the waits return.
__global__ void set_words(int *words, int value, int pe_count) {
  int const pe = int(threadIdx.x);
  if (pe < pe_count)
    nvshmem_int_p(words + nvshmem_my_pe() % word_count, value, pe);
}
__global__ void wait_for_words(int *words, size_t count, size_t *result) {
  size_t indices[word_count];
  int status[word_count] = {};
  nvshmem_int_wait_until_all(words, count, status, NVSHMEM_CMP_EQ, 7);
  result[0] = nvshmem_int_wait_until_any(words, count, status, NVSHMEM_CMP_EQ, 7);
  result[1] = nvshmem_int_wait_until_some(words, count, indices, status, NVSHMEM_CMP_EQ, 7);
  status[0] = 1;
  result[2] = nvshmem_int_test_some(words, count, indices, status, NVSHMEM_CMP_EQ, 7);
  result[3] = size_t(nvshmem_int_test_all(words, count, status, NVSHMEM_CMP_NE, 7));
  result[4] = nvshmem_int_test_any(words, count, nullptr, NVSHMEM_CMP_NE, 7);
  int values[word_count] = {7, 7, 7, 7, 7, 7, 7, 7};
  result[5] = size_t(nvshmem_int_test_all_vector(words, count, nullptr, NVSHMEM_CMP_EQ, values));
}

namespace {

void test_updates() {
  int const me = nvshmem_my_pe(), total = nvshmem_n_pes(), previous = (me + total - 1) % total;
  uint64_t *const sums = symmetric_array(4, uint64_t{0});
  int *const swapped = symmetric_array(2, -1);
  float *const numbers = symmetric_array(1, 0.0f);
  update_all<<<1, threads>>>(sums, swapped, numbers, total);
  CHECK_CUDA(cudaDeviceSynchronize());
  nvshmem_barrier_all();
  CHECK(element(sums, 0) == uint64_t(threads) * uint64_t(total));
  CHECK(element(sums, 1) == 3 * uint64_t(threads) * uint64_t(total));
  CHECK(element(sums, 2) == ~uint64_t{0});
  CHECK(element(sums, 3) == 0);
  CHECK(element(swapped, 0) == previous);
  CHECK(element(swapped, 1) == previous + 10);
  CHECK(element(numbers, 0) == float(previous) + 0.5f);
  nvshmem_barrier_all();
  uint64_t const before = nvshmem_uint64_atomic_fetch_add(sums, 1, 0);
  CHECK(before >= uint64_t(threads) * uint64_t(total));
  nvshmem_barrier_all();
  CHECK(nvshmem_uint64_atomic_fetch(sums, 0) == uint64_t(threads + 1) * uint64_t(total));
  nvshmem_barrier_all();
  nvshmem_free(sums);
  nvshmem_free(swapped);
  nvshmem_free(numbers);
}

void test_waits() {
  int const total = nvshmem_n_pes();
  size_t const count = size_t(total < word_count ? total : word_count);
  int *const words = symmetric_array(word_count, 0);
  size_t *const result = symmetric_array(6, size_t{0});
  set_words<<<1, 64>>>(words, 7, total);
  wait_for_words<<<1, 1>>>(words, count, result);
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK(element(result, 0) < count);
  CHECK(element(result, 1) == count);
  CHECK(element(result, 2) == count - 1);
  CHECK(element(result, 3) == (count == 1 ? 1 : 0));
  CHECK(element(result, 4) == SIZE_MAX);
  CHECK(element(result, 5) == 1);
  nvshmem_barrier_all();
  nvshmem_free(words);
  nvshmem_free(result);
}

}  // namespace

int main() {
  start();
  test_updates();
  test_waits();
  return end();
}
