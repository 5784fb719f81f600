// bench/shmemg/stream_nccl.cu: the loop of stream_bench.hpp with NCCL. One process for each PE, see
// by_file.hpp; BENCH_NCCL is the library's path, or a name that the loader finds.
#include <dlfcn.h>
#include <nccl.h>

#include "by_file.hpp"
#include "stream_bench.hpp"

namespace {

struct library {
  library() {
    int const rank = by_file::rank(), all = by_file::count();
    by_file::choose_device();
    ncclUniqueId id{};
    if (rank == 0)
      require(get_unique_id_(&id));
    by_file::share(id);
    require(init_(&all_, all, id, rank));
    rank_ = rank;
    count_ = all;
    if (cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) != cudaSuccess)
      by_file::fail("no stream");
    word_ = static_cast<float *>(allocate(sizeof(float)));
  }
  ~library() {
    require(destroy_(all_));
  }
  int pe() const {
    return rank_;
  }
  int pe_count() const {
    return count_;
  }
  void *allocate(size_t size) {
    void *made = nullptr;
    if (cudaMalloc(&made, size) != cudaSuccess || cudaMemset(made, 0, size) != cudaSuccess)
      by_file::fail("no memory");
    return made;
  }
  void meet() {
    barrier();
    wait();
  }
  void wait() {
    if (cudaStreamSynchronize(stream_) != cudaSuccess)
      by_file::fail("the stream failed");
  }

  // NCCL has neither: use the smallest collective of all processes.
  void sync() {
    barrier();
  }
  void barrier() {
    require(all_reduce_(word_, word_, 1, ncclFloat, ncclSum, all_, stream_));
  }
  void broadcast(float *to, const float *from, size_t elements) {
    require(broadcast_(from, to, elements, ncclFloat, 0, all_, stream_));
  }
  void fcollect(float *to, const float *from, size_t elements) {
    require(all_gather_(from, to, elements, ncclFloat, all_, stream_));
  }
  void alltoall(float *to, const float *from, size_t elements) {
    size_t const piece = elements / size_t(count_);
    require(group_start_());
    for (int pe = 0; pe < count_; pe++) {
      require(send_(from + size_t(pe) * piece, piece, ncclFloat, pe, all_, stream_));
      require(receive_(to + size_t(pe) * piece, piece, ncclFloat, pe, all_, stream_));
    }
    require(group_end_());
  }
  void sum(float *to, const float *from, size_t elements) {
    require(all_reduce_(from, to, elements, ncclFloat, ncclSum, all_, stream_));
  }

 private:
  static void require(ncclResult_t code) {
    if (code != ncclSuccess)
      by_file::fail("NCCL failed");
  }
  template <class Call>
  static Call *find(const char *name) {
    static void *const handle = dlopen(by_file::word("BENCH_NCCL"), RTLD_NOW);
    if (handle == nullptr)
      by_file::fail(dlerror());
    void *const found = dlsym(handle, name);
    if (found == nullptr)
      by_file::fail(dlerror());
    return reinterpret_cast<Call *>(found);
  }

  decltype(ncclGetUniqueId) *get_unique_id_ = find<decltype(ncclGetUniqueId)>("ncclGetUniqueId");
  decltype(ncclCommInitRank) *init_ = find<decltype(ncclCommInitRank)>("ncclCommInitRank");
  decltype(ncclCommDestroy) *destroy_ = find<decltype(ncclCommDestroy)>("ncclCommDestroy");
  decltype(ncclAllReduce) *all_reduce_ = find<decltype(ncclAllReduce)>("ncclAllReduce");
  decltype(ncclBroadcast) *broadcast_ = find<decltype(ncclBroadcast)>("ncclBroadcast");
  decltype(ncclAllGather) *all_gather_ = find<decltype(ncclAllGather)>("ncclAllGather");
  decltype(ncclSend) *send_ = find<decltype(ncclSend)>("ncclSend");
  decltype(ncclRecv) *receive_ = find<decltype(ncclRecv)>("ncclRecv");
  decltype(ncclGroupStart) *group_start_ = find<decltype(ncclGroupStart)>("ncclGroupStart");
  decltype(ncclGroupEnd) *group_end_ = find<decltype(ncclGroupEnd)>("ncclGroupEnd");
  ncclComm_t all_ = nullptr;
  cudaStream_t stream_{};
  float *word_ = nullptr;
  int rank_ = 0, count_ = 0;
};

}  // namespace

int main(int argc, char **argv) {
  library theirs;
  stream_bench::bench<library>{theirs, stream_bench::read_arguments(argc, argv)}.run();
  return 0;
}
