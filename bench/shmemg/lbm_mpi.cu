// The rival of examples/lbm as programs are written today: crossing populations go from the GPU to
// pinned host memory, through MPI, and to the other GPU. The inner planes are computed meanwhile.
// Takes --width, --height, --depth, --steps, --rounds as lbm does, and prints the same line.
#include <algorithm>
#include <cstdio>

#include "../../examples/common/device_memory.hpp"
#include "../../examples/lbm/lattice.hpp"
#include "../../examples/lbm/options.hpp"
#include "mpi_job.hpp"

namespace lbm {
namespace {

class simulation {
 public:
  simulation(const options &wanted, int me, int count)
      : below_((me + count - 1) % count), above_((me + 1) % count) {
    slab_.width = wanted.width;
    slab_.height = wanted.height;
    slab_.depth = wanted.depth;
    for (u32 i = 0; i < 2; i++) {
      fields_[i] = examples::device_array<double>(slab_.count());
      slab_.fields[i] = fields_[i].data();
    }
    for (double **each : {&up_out_, &up_in_, &down_out_, &down_in_})
      examples::cuda_check(cudaMallocHost(each, slab_.crossing() * sizeof(double)),
                           "cudaMallocHost");
    examples::cuda_check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking),
                         "cudaStreamCreate");
    examples::cuda_check(cudaEventCreateWithFlags(&outer_done_, cudaEventDisableTiming),
                         "cudaEventCreate");
    fill<<<256, block_size>>>(slab_);
    examples::device_wait();
  }

  void run(u32 steps) {
    for (u32 end = step_ + steps; step_ < end; step_++)
      step();
    examples::device_wait();
  }

 private:
  static constexpr u32 block_size = 128;

  void launch_part(u32 first, u32 last) {
    u64 const rows = u64(last - first) * slab_.height;
    step_part<<<u32(std::min<u64>(rows, last - first == 1 ? 64 : 2048)), block_size>>>(
        slab_, step_, first, last);
  }
  void copy(double *target, const double *source, cudaMemcpyKind kind) {
    examples::cuda_check(
        cudaMemcpyAsync(target, source, slab_.crossing() * sizeof(double), kind, copies_),
        "cudaMemcpyAsync");
  }

  void step() {
    double *const field = slab_.fields[(step_ + 1) % 2];
    int const count = int(slab_.crossing());
    MPI_Request requests[4];
    MPI_Irecv(up_in_, count, MPI_DOUBLE, below_, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(down_in_, count, MPI_DOUBLE, above_, 1, MPI_COMM_WORLD, &requests[1]);
    launch_part(0, 1);
    launch_part(slab_.depth - 1, slab_.depth);
    examples::cuda_check(cudaEventRecord(outer_done_, nullptr), "cudaEventRecord");
    launch_part(1, slab_.depth - 1);
    examples::cuda_check(cudaStreamWaitEvent(copies_, outer_done_, 0), "cudaStreamWaitEvent");
    copy(up_out_, field + slab_.going_up(slab_.depth - 1), cudaMemcpyDeviceToHost);
    copy(down_out_, field + slab_.going_down(0), cudaMemcpyDeviceToHost);
    examples::cuda_check(cudaStreamSynchronize(copies_), "cudaStreamSynchronize");
    MPI_Isend(up_out_, count, MPI_DOUBLE, above_, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(down_out_, count, MPI_DOUBLE, below_, 1, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    copy(field + slab_.going_up(-1), up_in_, cudaMemcpyHostToDevice);
    copy(field + slab_.going_down(slab_.depth), down_in_, cudaMemcpyHostToDevice);
    examples::cuda_check(cudaStreamSynchronize(copies_), "cudaStreamSynchronize");
  }

  int below_, above_;
  slab slab_{};
  examples::device_array<double> fields_[2];
  double *up_out_ = nullptr, *up_in_ = nullptr, *down_out_ = nullptr,
         *down_in_ = nullptr;  // pinned; kept for the life of the process
  cudaStream_t copies_ = nullptr;
  cudaEvent_t outer_done_ = nullptr;
  u32 step_ = 0;
};

void measure(const options &wanted, int me, int count) {
  simulation part(wanted, me, count);
  double const fastest = mpi_job::fastest_round(part, wanted.steps, wanted.rounds);
  if (me == 0)
    std::printf(
        "{\"program\": \"lbm_mpi\", \"exchange\": \"staged\", \"pes\": %d, \"width\": %u, "
        "\"height\": %u, \"depth\": %u, "
        "\"step_us\": %.3f, \"cells_per_s\": %.4g}\n",
        count,
        wanted.width,
        wanted.height,
        wanted.depth,
        fastest / wanted.steps * 1e6,
        double(wanted.width) * wanted.height * wanted.depth * count * wanted.steps / fastest);
}

}  // namespace
}  // namespace lbm

int main(int count, char **words) {
  lbm::options wanted;
  int exit_code = 0;
  if (!lbm::parse_options(count, words, wanted, exit_code))
    return exit_code;
  return mpi_job::run_rank("lbm_mpi", count, words, [&](int me, int ranks) {
    lbm::measure(wanted, me, ranks);
    return 0;
  });
}
