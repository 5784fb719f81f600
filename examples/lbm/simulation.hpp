// examples/lbm/simulation.hpp: the steps of a PE's slab.
#pragma once

#include <shmemx_on_stream.cuh>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "options.hpp"
#include "step_kernel.hpp"

namespace lbm {

class simulation {
 public:
  simulation(const options &wanted, int me, int count)
      : exchange_(wanted.exchange), next_{(me + count - 1) % count, (me + 1) % count} {
    slab_.width = wanted.width;
    slab_.height = wanted.height;
    slab_.depth = wanted.depth;
    if (wanted.plant == "force")
      slab_.of.force *= 1.05;
    for (double *&field : slab_.fields)
      field = examples::device_symmetric<double>(slab_.count());
    mail_ = examples::device_symmetric<mailbox>(1);
    arrived_ = examples::host_symmetric<uint64_t>(2);
    masses_ = examples::device_symmetric<double>(block_size);
    tanada::simt::launch({examples::on_gpu ? 256u : 4u}, {block_size}, fill, slab_);
    examples::device_wait();
    shmem_barrier_all();
  }

  /// Returns when all steps of this PE are done.
  void run(u32 steps) {
    for (u32 end = step_ + steps; step_ < end; step_++) {
      if (exchange_ == "kernel") {
        step_by_kernel();
      } else if (exchange_ == "stream") {
        step_by_stream();
      } else {
        step_by_host();
      }
    }
    examples::device_wait();
  }

  std::vector<double> field() const {
    std::vector<double> copy(slab_.count());
    examples::copy_to_host(copy.data(), slab_.fields[step_ % 2], copy.size() * sizeof(double));
    return copy;
  }
  const slab &shape() const {
    return slab_;
  }

  /// The mass of all PEs' fluid, in cells at rest. Collective.
  double mass() {
    tanada::simt::launch({1}, {block_size}, weigh, slab_, step_, masses_);
    if (shmemx_double_sum_reduce_on_stream(
            SHMEM_DEVICE_TEAM_WORLD, masses_, masses_, block_size, {}) != 0)
      throw std::runtime_error("no sum");
    examples::device_wait();
    double parts[block_size];
    examples::copy_to_host(parts, masses_, sizeof parts);
    return std::accumulate(parts, parts + block_size, 0.0);
  }

 private:
  static constexpr u32 block_size = examples::on_gpu ? 128 : 16;

  u32 outer_blocks() const {
    return std::min<u32>(slab_.height, examples::on_gpu ? 64 : 2);
  }
  u32 inner_blocks() const {
    return std::min<u32>(slab_.height * (slab_.depth - 2), examples::on_gpu ? 2048 : 4);
  }

  void step_by_kernel() {
    tanada::simt::launch({outer_blocks() + inner_blocks()},
                         {block_size},
                         step_all,
                         slab_,
                         next_,
                         mail_,
                         done_.data(),
                         step_,
                         outer_blocks());
  }

  void launch_part(u32 first, u32 last) {
    u32 const blocks = last - first == 1 ? outer_blocks() : inner_blocks();
    tanada::simt::launch({blocks}, {block_size}, step_part, slab_, step_, first, last);
  }
  void launch_outer() {
    launch_part(0, 1);
    launch_part(slab_.depth - 1, slab_.depth);
  }

  struct crossing {
    double *target;
    const double *source;
    std::size_t size;
    int pe;
  };
  crossing going_up() const {
    double *const field = slab_.fields[(step_ + 1) % 2];
    return {field + slab_.going_up(-1),
            field + slab_.going_up(slab_.depth - 1),
            slab_.crossing() * sizeof(double),
            next_.above};
  }
  crossing going_down() const {
    double *const field = slab_.fields[(step_ + 1) % 2];
    return {field + slab_.going_down(slab_.depth),
            field + slab_.going_down(0),
            slab_.crossing() * sizeof(double),
            next_.below};
  }

  // Crossing populations are sent while the inner planes are computed; the signals are words of
  // host memory.
  void step_by_host() {
    launch_outer();
    outer_done_.record();
    launch_part(1, slab_.depth - 1);
    outer_done_.wait();
    auto const put = [&](const crossing &c, uint64_t *signal) {
      shmem_putmem_signal_nbi(
          c.target, c.source, c.size, signal, uint64_t(step_) + 1, SHMEM_SIGNAL_SET, c.pe);
    };
    put(going_up(), &arrived_[0]);
    put(going_down(), &arrived_[1]);
    shmem_quiet();
    for (u32 i = 0; i < 2; i++)
      shmem_signal_wait_until(&arrived_[i], SHMEM_CMP_GE, uint64_t(step_) + 1);
  }

  // The host is ahead: everything is queued on the stream.
  void step_by_stream() {
    launch_outer();
    auto const put = [&](const crossing &c, uint64_t *signal) {
      shmemx_putmem_signal_on_stream(
          c.target, c.source, c.size, signal, uint64_t(step_) + 1, SHMEM_SIGNAL_SET, c.pe, {});
    };
    put(going_up(), &mail_->from_below);
    put(going_down(), &mail_->from_above);
    launch_part(1, slab_.depth - 1);
    shmemx_signal_wait_until_on_stream(&mail_->from_below, SHMEM_CMP_GE, uint64_t(step_) + 1, {});
    shmemx_signal_wait_until_on_stream(&mail_->from_above, SHMEM_CMP_GE, uint64_t(step_) + 1, {});
  }

  std::string exchange_;
  neighbours next_;
  slab slab_{};
  mailbox *mail_;
  uint64_t *arrived_;  // from below, from above
  double *masses_;
  examples::device_array<u32> done_{1};
  examples::moment outer_done_{true};
  u32 step_ = 0;
};

}  // namespace lbm
