// bench/shmemg/kernel.cu: OpenSHMEM in kernels: latencies, bandwidth of blocks' puts, and
// collectives by size. Run with oshrun -n 2.
#include <shmemg.h>

#include "kernel_bench.hpp"
#include "own_device.hpp"

namespace {

namespace simt = tanada::simt;
using kernel_bench::word;

struct library {
  TND_DEVICE static int me() {
    return shmemg_my_pe();
  }
  TND_DEVICE static int count() {
    return shmemg_n_pes();
  }
  TND_DEVICE static uint64_t now_ns() {
    return simt::now_ns();
  }
  TND_DEVICE static word block() {
    return simt::block_rank();
  }
  TND_DEVICE static unsigned thread() {
    return simt::thread_rank_in_block();
  }
  TND_DEVICE static void signal(word *to, word value, int pe) {
    shmemgx_signal_set(to, value, pe);
  }
  TND_DEVICE static void wait(word *on, word value) {
    (void)shmemg_signal_wait_until(on, SHMEM_CMP_GE, value);
  }
  TND_DEVICE static void quiet() {
    shmemg_quiet();
  }
  TND_DEVICE static void put8(word *to, word value, int pe) {
    shmemg_ulong_p(to, value, pe);
  }
  TND_DEVICE static void put_thread(word *to, const word *from, size_t size, int pe) {
    shmemg_putmem(to, from, size, pe);
  }
  TND_DEVICE static void put_signal_thread(
      word *to, const word *from, size_t size, word *on, word value, int pe) {
    shmemg_putmem_signal(to, from, size, on, value, SHMEM_SIGNAL_SET, pe);
  }
  TND_DEVICE static word fetch_add(word *at, word value, int pe) {
    return shmemg_ulong_atomic_fetch_add(at, value, pe);
  }
  TND_DEVICE static void sync_warp() {
    tanada::this_warp{}.sync();
  }
  TND_DEVICE static void add(word *at, int pe) {
    shmemg_ulong_atomic_add(at, 1, pe);
  }
  TND_DEVICE static void put(void *to, const void *from, size_t size, int pe) {
    shmemg_putmem_nbi_tg(to, from, size, pe);
  }
  TND_DEVICE static void quiet_block() {
    shmemg_quiet_tg();
  }
  TND_DEVICE static void sync() {
    (void)shmemg_sync_all_tg();
  }
  TND_DEVICE static void barrier() {
    (void)shmemgx_barrier_all_tg();
  }
  TND_DEVICE static void broadcast(float *to, const float *from, size_t count) {
    (void)shmemgx_float_broadcast_tg(SHMEM_DEVICE_TEAM_WORLD, to, from, count, 0);
  }
  TND_DEVICE static void fcollect(float *to, const float *from, size_t count) {
    (void)shmemgx_float_fcollect_tg(SHMEM_DEVICE_TEAM_WORLD, to, from, count);
  }
  TND_DEVICE static void alltoall(float *to, const float *from, size_t count) {
    (void)shmemgx_float_alltoall_tg(
        SHMEM_DEVICE_TEAM_WORLD, to, from, count / size_t(shmemg_n_pes()));
  }
  TND_DEVICE static void sum(float *to, const float *from, size_t count) {
    (void)shmemgx_float_sum_reduce_tg(SHMEM_DEVICE_TEAM_WORLD, to, from, count);
  }

  library() {
    own_device::choose();
    int provided = 0;
    if (shmem_init_thread(SHMEM_THREAD_SINGLE | SHMEM_DEVICE_HOST_INIT | SHMEM_DEVICE_KERNEL_INIT,
                          &provided) != 0)
      std::exit(2);
#if TND_SIMT_CUDA
    if (cudaMallocManaged(&results_, 64) != cudaSuccess)
      std::exit(2);
#else
    results_ = new uint64_t[8]{};
#endif
  }
  ~library() {
    shmem_finalize();
  }
  int pe() const {
    return shmem_my_pe();
  }
  int pe_count() const {
    return shmem_n_pes();
  }
  uint64_t *results() {
    return results_;
  }
  void *allocate(size_t size) {
    void *const made = shmemg_malloc(size);
    if (made == nullptr) {
      std::fprintf(stderr, "no %zu bytes: SHMEM_DEVICE_SYMMETRIC_SIZE is too small\n", size);
      std::exit(2);
    }
#if TND_SIMT_CUDA
    static_cast<void>(cudaMemset(made, 0, size));
    static_cast<void>(cudaDeviceSynchronize());
#endif
    meet();
    return made;
  }
  void meet() {
    shmem_barrier_all();
  }
  template <class... Parameters, class... Arguments>
  void launch(int blocks, int threads, void (*kernel)(Parameters...), Arguments... arguments) {
#if TND_SIMT_CUDA
    kernel_bench::cuda_launch(blocks, threads, kernel, arguments...);
#else
    simt::launch(simt::dim3(unsigned(blocks)), simt::dim3(unsigned(threads)), kernel, arguments...);
#endif
  }
  void wait_for_kernels() {
#if TND_SIMT_CUDA
    kernel_bench::cuda_wait();
#else
    static_cast<void>(simt::host::synchronize(~tanada::u64{0}));
#endif
  }

 private:
  uint64_t *results_ = nullptr;
};

}  // namespace

int main(int argc, char **argv) {
  library ours;
  kernel_bench::bench<library>{ours, kernel_bench::read_arguments(argc, argv)}.run();
  return 0;
}
