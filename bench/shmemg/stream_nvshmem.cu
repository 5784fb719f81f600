// bench/shmemg/stream_nvshmem.cu: the loop of stream_bench.hpp with NVSHMEM. One process for each
// PE, see by_file.hpp.
#include "nvshmem_job.hpp"
#include "stream_bench.hpp"

namespace {

struct library {
  library() {
    nvshmem_job::start();
    if (cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) != cudaSuccess)
      by_file::fail("no stream");
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
  void *allocate(size_t size) {
    void *const made = nvshmem_calloc(1, size);
    if (made == nullptr)
      by_file::fail("NVSHMEM_SYMMETRIC_SIZE is too small");
    return made;
  }
  void meet() {
    nvshmem_barrier_all();
  }
  void wait() {
    if (cudaStreamSynchronize(stream_) != cudaSuccess)
      by_file::fail("the stream failed");
  }

  void sync() {
    nvshmemx_sync_all_on_stream(stream_);
  }
  void barrier() {
    nvshmemx_barrier_all_on_stream(stream_);
  }
  void broadcast(float *to, const float *from, size_t elements) {
    queued(nvshmemx_float_broadcast_on_stream(NVSHMEM_TEAM_WORLD, to, from, elements, 0, stream_));
  }
  void fcollect(float *to, const float *from, size_t elements) {
    queued(nvshmemx_float_fcollect_on_stream(NVSHMEM_TEAM_WORLD, to, from, elements, stream_));
  }
  void alltoall(float *to, const float *from, size_t elements) {
    queued(nvshmemx_float_alltoall_on_stream(
        NVSHMEM_TEAM_WORLD, to, from, elements / size_t(pe_count()), stream_));
  }
  void sum(float *to, const float *from, size_t elements) {
    queued(nvshmemx_float_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, to, from, elements, stream_));
  }

 private:
  static void queued(int code) {
    if (code != 0)
      by_file::fail("a collective was refused");
  }

  cudaStream_t stream_{};
};

}  // namespace

int main(int argc, char **argv) {
  library theirs;
  stream_bench::bench<library>{theirs, stream_bench::read_arguments(argc, argv)}.run();
  return 0;
}
