// examples/fdtd/gathering.hpp: gathers Ez of all slabs in the memory of PE 0, which gets it from
// the others' devices.
//
// On each other PE, a kernel copies its cells into a slot of symmetric device memory and signals PE
// 0. PE 0 gets them and signals that the slot is free. Slots are used in turn, each by one thread
// of each PE.
#pragma once

#include <chrono>
#include <thread>
#include <vector>

#include "physics.hpp"

namespace fdtd {

/// The cells of a padded component, without the padding. `target` begins with the first plane of
/// the launch.
static TND_KERNEL void copy_cells(grid g, const float *component, float *target) {
  row_share const rows = my_rows(g.row_count());
  for (u64 row = rows.first; row < rows.last; row++) {
    const float *const from = component + g.at(0, g.row_y(row), g.row_z(row));
    for (u32 i = rows.lane; i < g.n; i += examples::lanes_a_row)
      target[row * g.n + i] = from[i];
  }
}

inline void launch_copy_cells(const grid &g, float *target) {
  auto const shape = examples::shape_for_rows(g.row_count());
  tanada::simt::launch(
      shape.grid, shape.block, copy_cells, g, static_cast<const float *>(g.e[2]), target);
}

class gathering {
 public:
  /// Collective: all PEs construct it together.
  gathering(const grid_storage &storage, u32 slot_count)
      : parts_(storage.parts()), me_(storage.me()), rounds_(slot_count) {
    if (parts_.count == 1)
      return;
    u64 const plane_count = u64(parts_.n) * parts_.n;
    for (u32 i = 0; i < slot_count; i++)
      slots_.push_back(examples::device_symmetric<float>(parts_.planes_max() * plane_count));
    filled_ = examples::host_symmetric<uint64_t>(u64(slot_count) * parts_.count);
    taken_ = examples::host_symmetric<uint64_t>(slot_count);
  }

  bool is_writer() const noexcept {
    return me_ == 0;
  }
  /// Where this PE's cells go, on PEs other than the writer.
  float *slot(u32 index) const {
    return slots_[index];
  }

  /// Call it when the slot has been filled. Returns when the writer has fetched it. Throws.
  void hand_over(u32 index) {
    u64 const round = ++rounds_[index];
    shmem_signal_set(&filled_[index * parts_.count + me_], round, 0);
    await(&taken_[index], round, 0);
  }

  /// Copies the others' cells to their positions in the whole grid. The writer copies its own part
  /// itself. Throws.
  void fetch(u32 index, float *cells) {
    u64 const round = ++rounds_[index], plane_count = u64(parts_.n) * parts_.n;
    for (u32 pe = 1; pe < parts_.count; pe++) {
      await(&filled_[index * parts_.count + pe], round, pe);
      shmem_getmem(cells + parts_.first(pe) * plane_count,
                   slots_[index],
                   parts_.planes(pe) * plane_count * sizeof(float),
                   int(pe));
      shmem_signal_set(&taken_[index], round, int(pe));
    }
  }

 private:
  static constexpr auto limit =
      std::chrono::minutes(5);  // snapshots are rare, so waiting threads sleep
  static constexpr auto pause = std::chrono::microseconds(100);

  static void await(const uint64_t *signal, u64 round, u32 pe) {
    auto const deadline = std::chrono::steady_clock::now() + limit;
    while (shmem_signal_fetch(signal) < round) {
      if (std::chrono::steady_clock::now() > deadline)
        throw std::runtime_error("PE " + std::to_string(pe) +
                                 " has had no part in a snapshot for 5 minutes");
      std::this_thread::sleep_for(pause);
    }
  }

  slabs parts_;
  u32 me_;
  std::vector<u64> rounds_;     // use count of each slot; accessed only by the slot's thread
  std::vector<float *> slots_;  // symmetric device memory
  uint64_t *filled_ = nullptr;  // symmetric, by slot and PE: at the writer
  uint64_t *taken_ = nullptr;   // symmetric, by slot
};

}  // namespace fdtd
