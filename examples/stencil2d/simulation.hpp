// examples/stencil2d/simulation.hpp: a PE's part of the run.
#pragma once

#include <shmemx_on_stream.cuh>

#include <algorithm>
#include <string>

#include "options.hpp"
#include "step_kernel.hpp"

namespace stencil2d {

class simulation {
 public:
  simulation(const options &wanted, const places &all, int me)
      : wanted_(wanted), all_(all), me_(me) {
    tile_.shape = {wanted.rows, wanted.columns};
    for (u32 d = 0; d < direction_count; d++)
      tile_.neighbours[d] = all.neighbour(me, d);
    for (u32 i = 0; i < 2; i++) {
      tile_.fields[i] = examples::device_symmetric<double>(tile_.shape.count());
      for (auto &side : tile_.columns[i])
        side = examples::device_symmetric<double>(wanted.rows);
    }
    mail_ = examples::device_symmetric<mailbox>(1);
    arrived_ = examples::host_symmetric<uint64_t>(direction_count);
  }

  /// Collective. Both fields hold the initial values of the grid.
  void begin() {
    std::vector<double> cells(tile_.shape.count());
    for (long i = -1; i <= long(wanted_.rows); i++)
      for (long j = -1; j <= long(wanted_.columns); j++)
        cells[tile_.shape.at(i, j)] = first_value(all_.y(me_) * long(wanted_.rows) + i,
                                                  all_.x(me_) * long(wanted_.columns) + j);
    if (wanted_.plant == "corner")
      cells[tile_.shape.at(-1, -1)] += 1;
    for (double *const field : tile_.fields)
      examples::copy_to_device(field, cells.data(), cells.size() * sizeof(double));
    shmem_barrier_all();
  }

  /// Returns when all steps of this PE are done.
  void run(u32 steps) {
    for (u32 end = step_ + steps; step_ < end; step_++) {
      if (wanted_.exchange == "kernel") {
        step_by_kernel();
      } else if (wanted_.exchange == "stream") {
        step_by_stream();
      } else {
        step_by_host();
      }
    }
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
  static constexpr u32 block_size = examples::on_gpu ? 256 : 32;

  u32 boundary_blocks() const {
    u64 const wanted = (tile_.shape.boundary_count() + block_size - 1) / block_size;
    return u32(std::min<u64>(wanted, examples::on_gpu ? 64 : 2));
  }
  u32 interior_blocks() const {
    return std::clamp<u32>(
        pieces(tile_.shape, block_size).count(), 1, examples::on_gpu ? 65536 : 4);
  }

  void step_by_kernel() {
    u32 const boundary = boundary_blocks();
    tanada::simt::launch({boundary + interior_blocks()},
                         {block_size},
                         step_all,
                         tile_,
                         mail_,
                         done_.data(),
                         step_,
                         boundary);
  }

  void launch_boundary() {
    tanada::simt::launch({boundary_blocks()}, {block_size}, step_boundary, tile_, step_);
  }
  void launch_interior() {
    tanada::simt::launch({interior_blocks()}, {block_size}, step_interior, tile_, step_);
  }

  /// Calls `send(target, source, bytes, signal index, PE)` for every neighbour.
  template <class Send>
  void for_edges(Send send) const {
    for (u32 d = 0; d < direction_count; d++) {
      if (tile_.neighbours[d] < 0)
        continue;
      span const ghosts = tile_.shape.ghosts(opposite(d));
      u32 const next = (step_ + 1) % 2;
      send(tile_.fields[next] + ghosts.offset,
           outgoing(tile_, next, d),
           ghosts.count * sizeof(double),
           opposite(d),
           tile_.neighbours[d]);
    }
  }

  // Edges are sent while the interior is computed; the signals are words of host memory.
  void step_by_host() {
    launch_boundary();
    boundary_done_.record();
    launch_interior();
    boundary_done_.wait();
    for_edges([&](double *target, const double *source, std::size_t size, u32 from, int pe) {
      shmem_putmem_signal_nbi(
          target, source, size, &arrived_[from], u64(step_) + 1, SHMEM_SIGNAL_SET, pe);
    });
    shmem_quiet();
    for (u32 d = 0; d < direction_count; d++)
      if (tile_.neighbours[d] >= 0)
        shmem_signal_wait_until(&arrived_[d], SHMEM_CMP_GE, u64(step_) + 1);
  }

  // The host is ahead: everything is queued on the stream.
  void step_by_stream() {
    launch_boundary();
    for_edges([&](double *target, const double *source, std::size_t size, u32 from, int pe) {
      shmemx_putmem_signal_on_stream(
          target, source, size, &mail_->arrived[from], u64(step_) + 1, SHMEM_SIGNAL_SET, pe, {});
    });
    launch_interior();
    for (u32 d = 0; d < direction_count; d++)
      if (tile_.neighbours[d] >= 0)
        shmemx_signal_wait_until_on_stream(&mail_->arrived[d], SHMEM_CMP_GE, u64(step_) + 1, {});
  }

  options wanted_;
  places all_;
  int me_;
  tile tile_{};
  mailbox *mail_;
  uint64_t *arrived_;
  examples::device_array<u32> done_{1};
  examples::moment boundary_done_{true};
  u32 step_ = 0;
};

}  // namespace stencil2d
