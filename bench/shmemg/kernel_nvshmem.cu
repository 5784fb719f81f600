// bench/shmemg/kernel_nvshmem.cu: the loops of kernel_bench.hpp with NVSHMEM. One process for each
// PE, see by_file.hpp.
#include "kernel_bench.hpp"
#include "nvshmem_job.hpp"

namespace {

using kernel_bench::word;

struct library {
  __device__ static int me() {
    return nvshmem_my_pe();
  }
  __device__ static int count() {
    return nvshmem_n_pes();
  }
  __device__ static uint64_t now_ns() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
  }
  __device__ static word block() {
    return blockIdx.x;
  }
  __device__ static unsigned thread() {
    return threadIdx.x;
  }
  __device__ static void signal(word *to, word value, int pe) {
    nvshmemx_signal_op(to, value, NVSHMEM_SIGNAL_SET, pe);
  }
  __device__ static void wait(word *on, word value) {
    nvshmem_signal_wait_until(on, NVSHMEM_CMP_GE, value);
  }
  __device__ static void quiet() {
    nvshmem_quiet();
  }
  __device__ static void put8(word *to, word value, int pe) {
    nvshmem_ulong_p(to, value, pe);
  }
  __device__ static void put_thread(word *to, const word *from, size_t size, int pe) {
    nvshmem_putmem(to, from, size, pe);
  }
  __device__ static void put_signal_thread(
      word *to, const word *from, size_t size, word *on, word value, int pe) {
    nvshmem_putmem_signal(to, from, size, on, value, NVSHMEM_SIGNAL_SET, pe);
  }
  // Not ulong: NVSHMEM 3.4 adds to 4 of its 8 bytes, and returns as many.
  __device__ static word fetch_add(word *at, word value, int pe) {
    return nvshmem_uint64_atomic_fetch_add(reinterpret_cast<uint64_t *>(at), value, pe);
  }
  __device__ static void add(word *at, int pe) {
    nvshmem_uint64_atomic_add(reinterpret_cast<uint64_t *>(at), 1, pe);
  }
  __device__ static void sync_warp() {
    __syncwarp();
  }
  __device__ static void put(void *to, const void *from, size_t size, int pe) {
    nvshmemx_putmem_nbi_block(to, from, size, pe);
  }
  __device__ static void quiet_block() {
    __syncthreads();
    if (threadIdx.x == 0)
      nvshmem_quiet();
    __syncthreads();
  }
  __device__ static void sync() {
    nvshmemx_sync_all_block();
  }
  __device__ static void barrier() {
    nvshmemx_barrier_all_block();
  }
  __device__ static void broadcast(float *to, const float *from, size_t elements) {
    nvshmemx_float_broadcast_block(NVSHMEM_TEAM_WORLD, to, from, elements, 0);
  }
  __device__ static void fcollect(float *to, const float *from, size_t elements) {
    nvshmemx_float_fcollect_block(NVSHMEM_TEAM_WORLD, to, from, elements);
  }
  __device__ static void alltoall(float *to, const float *from, size_t elements) {
    nvshmemx_float_alltoall_block(NVSHMEM_TEAM_WORLD, to, from, elements / size_t(nvshmem_n_pes()));
  }
  __device__ static void sum(float *to, const float *from, size_t elements) {
    nvshmemx_float_sum_reduce_block(NVSHMEM_TEAM_WORLD, to, from, elements);
  }

  library() {
    nvshmem_job::start();
    if (cudaMallocManaged(&results_, 64) != cudaSuccess)
      std::exit(2);
  }
  ~library() {
    nvshmem_finalize();
  }
  int pe() const {
    return nvshmem_my_pe();
  }
  int pe_count() const {
    return nvshmem_n_pes();
  }
  uint64_t *results() {
    return results_;
  }
  void *allocate(size_t size) {
    void *const made = nvshmem_calloc(1, size);
    if (made == nullptr)
      std::exit(2);
    return made;
  }
  void meet() {
    nvshmem_barrier_all();
  }
  template <class... Parameters, class... Arguments>
  void launch(int blocks, int threads, void (*kernel)(Parameters...), Arguments... arguments) {
    kernel_bench::cuda_launch(blocks, threads, kernel, arguments...);
  }
  void wait_for_kernels() {
    kernel_bench::cuda_wait();
  }

 private:
  uint64_t *results_ = nullptr;
};

}  // namespace

int main(int argc, char **argv) {
  library theirs;
  kernel_bench::bench<library>{theirs, kernel_bench::read_arguments(argc, argv)}.run();
  return 0;
}
