// bench/shmemg/stream.cu: OpenSHMEM's collectives in the order of a stream. Run with oshrun.
#include <shmemx_on_stream.cuh>

#include "own_device.hpp"
#include "stream_bench.hpp"

namespace {

namespace simt = tanada::simt;

void require(bool is_good, const char *what) {
  if (is_good)
    return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(2);
}

struct library {
  library() {
    own_device::choose();
    int provided = 0;
    constexpr int wanted = SHMEM_DEVICE_HOST_INIT | SHMEM_DEVICE_KERNEL_INIT;
    require(shmem_init_thread(SHMEM_THREAD_SINGLE | wanted, &provided) == 0 &&
                (provided & wanted) == wanted,
            "kernels cannot call");
#if TND_SIMT_CUDA
    require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess, "no stream");
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
  void *allocate(size_t size) {
    void *const made = shmemg_calloc(1, size);
    require(made != nullptr, "SHMEM_DEVICE_SYMMETRIC_SIZE is too small");
    return made;
  }
  void meet() {
    shmem_barrier_all();
  }
  void wait() {
#if TND_SIMT_CUDA
    require(cudaStreamSynchronize(stream_) == cudaSuccess, "the stream failed");
#else
    require(simt::host::synchronize(~tanada::u64{0}), "kernels do not end");
#endif
  }

  void sync() {
    queued(shmemx_sync_all_on_stream(stream_));
  }
  void barrier() {
    shmemx_barrier_all_on_stream(stream_);
  }
  void broadcast(float *to, const float *from, size_t elements) {
    queued(
        shmemx_float_broadcast_on_stream(SHMEM_DEVICE_TEAM_WORLD, to, from, elements, 0, stream_));
  }
  void fcollect(float *to, const float *from, size_t elements) {
    queued(shmemx_float_fcollect_on_stream(SHMEM_DEVICE_TEAM_WORLD, to, from, elements, stream_));
  }
  void alltoall(float *to, const float *from, size_t elements) {
    queued(shmemx_float_alltoall_on_stream(
        SHMEM_DEVICE_TEAM_WORLD, to, from, elements / size_t(pe_count()), stream_));
  }
  void sum(float *to, const float *from, size_t elements) {
    queued(shmemx_float_sum_reduce_on_stream(SHMEM_DEVICE_TEAM_WORLD, to, from, elements, stream_));
  }

 private:
  static void queued(int code) {
    require(code == 0, "a collective was refused");
  }

  shmemx_stream_t stream_{};
};

}  // namespace

int main(int argc, char **argv) {
  library ours;
  stream_bench::bench<library>{ours, stream_bench::read_arguments(argc, argv)}.run();
  return 0;
}
