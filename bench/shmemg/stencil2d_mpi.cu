// The rival of examples/stencil2d as programs are written today: edges go from the GPU to pinned
// host memory, through MPI, and to the other GPU. The interior is computed meanwhile. Takes --rows,
// --columns, --steps, --rounds, --check as stencil2d does, and prints the same line.
#include <cstdio>

#include "../../examples/common/device_memory.hpp"
#include "../../examples/stencil2d/check.hpp"
#include "../../examples/stencil2d/options.hpp"
#include "mpi_job.hpp"

namespace stencil2d {
namespace {

class simulation {
 public:
  simulation(const options &wanted, const places &all, int me)
      : wanted_(wanted), all_(all), me_(me) {
    tile_.shape = {wanted.rows, wanted.columns};
    for (u32 d = 0; d < direction_count; d++)
      tile_.neighbours[d] = all.neighbour(me, d);
    for (u32 i = 0; i < 2; i++) {
      fields_[i] = examples::device_array<double>(tile_.shape.count());
      tile_.fields[i] = fields_[i].data();
      for (u32 side = 0; side < 2; side++) {
        columns_[i][side] = examples::device_array<double>(wanted.rows);
        tile_.columns[i][side] = columns_[i][side].data();
      }
    }
    u64 const edges = 2 * (u64(wanted.rows) + wanted.columns) + 4;
    for (double **each : {&outgoing_, &incoming_})
      examples::cuda_check(cudaMallocHost(each, edges * sizeof(double)), "cudaMallocHost");
    examples::cuda_check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking),
                         "cudaStreamCreate");
    examples::cuda_check(cudaEventCreateWithFlags(&boundary_done_, cudaEventDisableTiming),
                         "cudaEventCreate");
  }

  void begin() {
    std::vector<double> cells(tile_.shape.count());
    for (long i = -1; i <= long(wanted_.rows); i++)
      for (long j = -1; j <= long(wanted_.columns); j++)
        cells[tile_.shape.at(i, j)] = first_value(all_.y(me_) * long(wanted_.rows) + i,
                                                  all_.x(me_) * long(wanted_.columns) + j);
    for (double *const field : tile_.fields)
      examples::copy_to_device(field, cells.data(), cells.size() * sizeof(double));
  }

  void run(u32 steps) {
    for (u32 end = step_ + steps; step_ < end; step_++)
      step();
    examples::device_wait();
  }

  std::vector<double> cells() const {
    std::vector<double> copy(tile_.shape.cells());
    examples::copy_to_host(copy.data(), tile_.fields[step_ % 2], copy.size() * sizeof(double));
    return copy;
  }
  const layout &shape() const {
    return tile_.shape;
  }
  const weights &with() const {
    return tile_.with;
  }

 private:
  static constexpr u32 block_size = 256;

  // The position of an edge in host memory: as the ghosts of the opposite direction follow the
  // cells.
  u64 host_offset(u32 d) const {
    return tile_.shape.ghosts(d).offset - tile_.shape.cells();
  }

  void step() {
    u32 const next = (step_ + 1) % 2;
    u64 const boundary = (tile_.shape.boundary_count() + block_size - 1) / block_size;
    step_boundary<<<u32(std::min<u64>(boundary, 64)), block_size>>>(tile_, step_);
    examples::cuda_check(cudaEventRecord(boundary_done_, nullptr), "cudaEventRecord");
    step_interior<<<std::clamp<u32>(pieces(tile_.shape, block_size).count(), 1, 65536),
                    block_size>>>(tile_, step_);
    examples::cuda_check(cudaStreamWaitEvent(copies_, boundary_done_, 0), "cudaStreamWaitEvent");
    MPI_Request requests[2 * direction_count];
    int count = 0;
    for (u32 d = 0; d < direction_count; d++) {
      if (tile_.neighbours[d] < 0)
        continue;
      u64 const cells = tile_.shape.ghosts(d).count;
      MPI_Irecv(incoming_ + host_offset(d),
                int(cells),
                MPI_DOUBLE,
                tile_.neighbours[d],
                int(opposite(d)),
                MPI_COMM_WORLD,
                &requests[count++]);
      examples::cuda_check(cudaMemcpyAsync(outgoing_ + host_offset(d),
                                           outgoing(tile_, next, d),
                                           cells * sizeof(double),
                                           cudaMemcpyDeviceToHost,
                                           copies_),
                           "cudaMemcpyAsync");
    }
    examples::cuda_check(cudaStreamSynchronize(copies_), "cudaStreamSynchronize");
    for (u32 d = 0; d < direction_count; d++) {
      if (tile_.neighbours[d] < 0)
        continue;
      MPI_Isend(outgoing_ + host_offset(d),
                int(tile_.shape.ghosts(d).count),
                MPI_DOUBLE,
                tile_.neighbours[d],
                int(d),
                MPI_COMM_WORLD,
                &requests[count++]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (u32 d = 0; d < direction_count; d++) {
      if (tile_.neighbours[d] < 0)
        continue;
      span const ghosts = tile_.shape.ghosts(d);
      examples::cuda_check(cudaMemcpyAsync(tile_.fields[next] + ghosts.offset,
                                           incoming_ + host_offset(d),
                                           ghosts.count * sizeof(double),
                                           cudaMemcpyHostToDevice,
                                           copies_),
                           "cudaMemcpyAsync");
    }
    examples::cuda_check(cudaStreamSynchronize(copies_), "cudaStreamSynchronize");
  }

  options wanted_;
  places all_;
  int me_;
  tile tile_{};
  examples::device_array<double> fields_[2], columns_[2][2];
  double *outgoing_ = nullptr, *incoming_ = nullptr;  // pinned; kept for the life of the process
  cudaStream_t copies_ = nullptr;
  cudaEvent_t boundary_done_ = nullptr;
  u32 step_ = 0;
};

int simulate(const options &wanted, int me, int count) {
  places const all(count);
  simulation part(wanted, all, me);
  part.begin();
  double const fastest = mpi_job::fastest_round(part, wanted.steps, wanted.rounds);
  int failed = 0;
  if (wanted.check)
    failed =
        largest_difference(
            all, part.shape(), part.with(), wanted.steps * wanted.rounds, me, part.cells()) < 1e-12
            ? 0
            : 1;
  if (me == 0)
    std::printf(
        "{\"program\": \"stencil2d_mpi\", \"exchange\": \"staged\", \"pes\": %d, \"across\": %d, "
        "\"rows\": %u, \"columns\": %u, "
        "\"step_us\": %.3f, \"cells_per_s\": %.4g}\n",
        count,
        all.across,
        wanted.rows,
        wanted.columns,
        fastest / wanted.steps * 1e6,
        double(wanted.rows) * wanted.columns * count * wanted.steps / fastest);
  return failed;
}

}  // namespace
}  // namespace stencil2d

int main(int count, char **words) {
  stencil2d::options wanted;
  int exit_code = 0;
  if (!stencil2d::parse_options(count, words, wanted, exit_code))
    return exit_code;
  return mpi_job::run_rank("stencil2d_mpi", count, words, [&](int me, int ranks) {
    return stencil2d::simulate(wanted, me, ranks);
  });
}
