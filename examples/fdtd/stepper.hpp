// examples/fdtd/stepper.hpp: time steps of a slab, whose edges go to the neighbours' ghost planes,
// from device memory to device memory.
//
// Half a step updates H of all planes from E, also from E of the plane above. The other half
// updates E from H, also from H of the plane below. So H of the top plane goes up before E is
// updated, and E of the bottom plane goes down before H is updated. The plane to send is computed
// first, and the others while it is in flight. Sending and waiting is done by the host, by the
// stream between kernels, or by kernels. With the last two the host is ahead, and signals are words
// of the devices.
//
// Why no ghost plane is overwritten too early: the neighbour below sends H of a step after it has
// received E of the step before. This PE sends that E when all kernels that read the neighbour's H
// of that step have run, because they computed that plane of E. The neighbour above likewise sends
// E after it received this PE's H, which was computed by the only kernels that read its E.
#pragma once

#include <shmemx_on_stream.cuh>

#include "edges.hpp"
#include "physics.hpp"

namespace fdtd {

/// What sends the edges.
enum class exchange { host, stream, kernel };

class stepper {
 public:
  /// All PEs construct one together. `storage` must outlive it. Unless the host sends, kernels take
  /// part in the job.
  explicit stepper(grid_storage &storage, exchange by = exchange::host)
      : storage_(storage),
        by_(by),
        arrived_(examples::host_symmetric<uint64_t>(2)),
        mail_(examples::device_symmetric<mailbox>(1)) {
    slabs const &parts = storage.parts();
    u32 const me = storage.me();
    bool const is_ring = parts.count > 1 && storage.view().kind[2] == boundary::periodic;
    if (me + 1 < parts.count || is_ring)
      above_ = int((me + 1) % parts.count);
    if (me > 0 || is_ring)
      below_ = int((me + parts.count - 1) % parts.count);
  }
  stepper(const stepper &) = delete;
  stepper &operator=(const stepper &) = delete;

  grid_storage &storage() const noexcept {
    return storage_;
  }
  const grid &view() const noexcept {
    return storage_.view();
  }

  /// Call it after an initial field was set: makes the ghost planes copies of the neighbours'
  /// planes. Collective.
  void begin() {
    examples::device_wait();
    shmem_barrier_all();
    for (u32 component = 0; component < 2; component++) {
      if (below_ >= 0)
        shmem_putmem(e_there(component), e_here(component), plane_size(), below_);
      if (above_ >= 0)
        shmem_putmem(h_there(component), h_here(component), plane_size(), above_);
    }
    shmem_barrier_all();
  }

  /// One time step; `time` is that of its end. Returns when the kernels are launched and, if the
  /// host sends, the edges are sent. Waits for a slow neighbour until the library treats it as
  /// failed.
  void step(const source *pulse, float time) {
    grid const &g = storage_.view();
    if (above_ >= 0) {
      await(e_from_above);
      launch_h(g.part(g.last - 1, g.last));
      edge const top{{h_there(0), h_there(1)}, {h_here(0), h_here(1)}, plane_count(), above_};
      pass_on(top, h_from_below, [&] { launch_h(g.part(g.first, g.last - 1)); });
    } else {
      launch_h(g);
    }
    step_count_++;
    if (below_ >= 0) {
      await(h_from_below);
      launch_e(g.part(g.first, g.first + 1), pulse, time);
      edge const lowest{{e_there(0), e_there(1)}, {e_here(0), e_here(1)}, plane_count(), below_};
      pass_on(lowest, e_from_above, [&] { launch_e(g.part(g.first + 1, g.last), pulse, time); });
    } else {
      launch_e(g, pulse, time);
    }
    if (by_ != exchange::host && step_count_ % steps_ahead == 0)
      stay_near();
  }

  /// Call it after the last step: returns when the kernels launched so far have run and their edges
  /// have arrived.
  void complete() {
    if (by_ != exchange::host)
      shmemx_quiet_on_stream({});
  }

 private:
  enum side : u32 { h_from_below, e_from_above };

  u64 plane_count() const {
    return u64(storage_.view().pitch(2));
  }
  u64 plane_size() const {
    return plane_count() * sizeof(float);
  }

  float *h_here(u32 component) const {
    grid const &g = storage_.view();
    return g.h[component] + u64(g.last - g.first) * u64(g.pitch(2));
  }
  float *h_there(u32 component) const {
    return storage_.view().h[component];
  }
  float *e_here(u32 component) const {
    return storage_.view().e[component] + storage_.view().pitch(2);
  }
  float *e_there(u32 component) const {
    grid const &g = storage_.view();
    return g.e[component] + u64(storage_.parts().planes(u32(below_)) + 1) * u64(g.pitch(2));
  }

  /// Starts sending the edge, which is in flight while launch_others() computes.
  template <class Others>
  void pass_on(const edge &what, side which, Others launch_others) {
    if (by_ == exchange::host) {
      edge_done_.record();
      launch_others();
      edge_done_.wait();
      for (u32 component = 0; component < 2; component++)
        shmem_putmem_signal_nbi(what.there[component],
                                what.here[component],
                                plane_size(),
                                &arrived_[which],
                                1,
                                SHMEM_SIGNAL_ADD,
                                what.pe);
      shmem_quiet();
      return;
    }
    uint64_t *const signal = &mail_->arrived[which];
    u64 const value = which == e_from_above ? step_count_ : step_count_ + 1;
    if (by_ == exchange::kernel) {
      tanada::simt::launch(
          {deliver_blocks}, {deliver_block_size}, deliver, what, signal, value, done_.data());
    } else {
      shmemx_putmem_on_stream(what.there[0], what.here[0], plane_size(), what.pe, {});
      shmemx_quiet_on_stream({});
      shmemx_putmem_signal_on_stream(
          what.there[1], what.here[1], plane_size(), signal, value, SHMEM_SIGNAL_SET, what.pe, {});
    }
    launch_others();
  }

  // The number of finished steps at the neighbour. With the host each of the two components adds
  // one, because they may arrive in any order.
  void await(side what) {
    if (by_ == exchange::host)
      shmem_signal_wait_until(&arrived_[what], SHMEM_CMP_GE, 2 * step_count_);
    else if (by_ == exchange::stream)
      shmemx_signal_wait_until_on_stream(&mail_->arrived[what], SHMEM_CMP_GE, step_count_, {});
    else
      tanada::simt::launch({1}, {1}, await_edge, &mail_->arrived[what], step_count_);
  }

  // A driver queues only so many launches. While one more waits, it may block other threads,
  // including those that send for this PE's kernels.
  static constexpr u32 steps_ahead = 16;
  void stay_near() {
    examples::moment &reached = reached_[step_count_ / steps_ahead % 2];
    reached.wait();
    reached.record();
  }

  static constexpr u32 deliver_blocks = examples::on_gpu ? 16 : 2,
                       deliver_block_size = examples::on_gpu ? 256 : 8;

  grid_storage &storage_;
  exchange const by_;
  uint64_t *arrived_;  // symmetric, in the host's memory
  mailbox *mail_;
  examples::device_array<u32> done_{1};
  u64 step_count_ = 0;           // started half steps of E, over all runs
  int above_ = -1, below_ = -1;  // PEs; -1: a wall, or no other PE
  examples::moment edge_done_, reached_[2];
};

}  // namespace fdtd
