// fdtd/stepper.hpp: time steps of a slab, whose edges go to the neighbours' ghost planes, from device memory to device memory.
//
// Half a step updates H of all planes from E, of the plane above too; the other half E from H, of the plane below too. So H
// of the uppermost plane goes up before E is updated, and E of the lowest plane goes down before H is. The plane that goes
// is computed first, and the others while it is on its way.
//
// Why no ghost plane is overwritten too early: the neighbour below sends H of a step when it has E of the step before, which
// we send when all kernels that read its H of that step have run, for they made that plane of E. The neighbour above likewise
// sends E when it has our H, which the only kernels that read its E have made.
#pragma once

#include "physics.hpp"

namespace fdtd {

class stepper {
 public:
  /// All PEs make one, together. `storage` outlives it.
  explicit stepper(grid_storage &storage) : storage_(storage), arrived_(examples::host_symmetric<uint64_t>(2)) {
    slabs const &parts = storage.parts();
    u32 const me = storage.me();
    bool const is_ring = parts.count > 1 && storage.view().kind[2] == boundary::periodic;
    if (me + 1 < parts.count || is_ring) above_ = int((me + 1) % parts.count);
    if (me > 0 || is_ring) below_ = int((me + parts.count - 1) % parts.count);
  }
  stepper(const stepper &) = delete;
  stepper &operator=(const stepper &) = delete;

  grid_storage &storage() const noexcept { return storage_; }
  const grid &view() const noexcept { return storage_.view(); }

  /// After a first field was set: ghost planes are what the neighbours have. All PEs call it.
  void begin() {
    examples::device_wait();
    shmem_barrier_all();
    for (u32 component = 0; component < 2; component++) {
      if (below_ >= 0) shmem_putmem(e_there(component), e_here(component), plane_size(), below_);
      if (above_ >= 0) shmem_putmem(h_there(component), h_here(component), plane_size(), above_);
    }
    shmem_barrier_all();
  }

  /// One time step; `time` is that of its end. Returns when the kernels are launched and the edges have gone; a neighbour that
  /// is behind is waited for, until the library finds it lost.
  void step(const source *pulse, float time) {
    grid const &g = storage_.view();
    if (above_ >= 0) {
      await(e_from_above);
      launch_h(g.part(g.last - 1, g.last));
      edge_done_.record();
      launch_h(g.part(g.first, g.last - 1));
      edge_done_.wait();
      for (u32 component = 0; component < 2; component++)
        send(h_there(component), h_here(component), h_from_below, above_);
      shmem_quiet();
    } else {
      launch_h(g);
    }
    step_count_++;
    if (below_ >= 0) {
      await(h_from_below);
      launch_e(g.part(g.first, g.first + 1), pulse, time);
      edge_done_.record();
      launch_e(g.part(g.first + 1, g.last), pulse, time);
      edge_done_.wait();
      for (u32 component = 0; component < 2; component++)
        send(e_there(component), e_here(component), e_from_above, below_);
      shmem_quiet();
    } else {
      launch_e(g, pulse, time);
    }
  }

 private:
  enum side : u32 { h_from_below, e_from_above };

  u64 plane_size() const { return u64(storage_.view().pitch(2)) * sizeof(float); }

  // x and y of a field's plane: here, and the ghost plane at the neighbour, by the symmetric address.
  float *h_here(u32 component) const {
    grid const &g = storage_.view();
    return g.h[component] + u64(g.last - g.first) * u64(g.pitch(2));
  }
  float *h_there(u32 component) const { return storage_.view().h[component]; }
  float *e_here(u32 component) const { return storage_.view().e[component] + storage_.view().pitch(2); }
  float *e_there(u32 component) const {
    grid const &g = storage_.view();
    return g.e[component] + u64(storage_.parts().planes(u32(below_)) + 1) * u64(g.pitch(2));
  }

  // Each of the two components adds one: they may arrive in any order.
  void send(float *there, const float *here, side what, int pe) {
    shmem_putmem_signal_nbi(there, here, plane_size(), &arrived_[what], 1, SHMEM_SIGNAL_ADD, pe);
  }
  void await(side what) { shmem_signal_wait_until(&arrived_[what], SHMEM_CMP_GE, 2 * step_count_); }

  grid_storage &storage_;
  uint64_t *arrived_;  // symmetric, in the host's memory
  u64 step_count_ = 0;  // halves of E that have begun, of all runs
  int above_ = -1, below_ = -1;  // PEs; -1: a wall, or nobody else
  examples::moment edge_done_;
};

}  // namespace fdtd
