// examples/fdtd/grid.hpp: the Yee grid for kernels. Units: a cell has length 1, and light in vacuum
// travels 1 in a unit of time.
//
// Arrays are (n + 2)^3 floats, x fastest, with a ghost plane at index -1 and one at index n of
// every axis. Cell (i, j, k) has Ex at (i + 1/2, j, k), with Ey and Ez alike, and Hx at (i, j +
// 1/2, k + 1/2), with Hy and Hz alike. The walls are in the planes 0 and n: E along a wall is never
// updated there and stays 0, as in a perfect conductor. An absorbing axis has a convolutional
// perfectly matched layer (Roden and Gedney, 2000) in front of its walls. On a periodic axis the
// ghost planes are copies.
//
// PEs share the grid: each has a slab of planes along z, in arrays of (n + 2)^2 by its planes and
// two ghost planes. The ghost planes are copies of the neighbours' adjacent planes. Indices always
// refer to the whole grid.
#pragma once

#include <cmath>
#include <cstdint>

#include "../common/halo.hpp"
#include "slabs.hpp"

namespace fdtd {

enum class boundary : u32 { absorbing, periodic, conductor };

inline constexpr u32 layer_depth = 8;  // cells of an absorbing layer

/// One time step's decay and feed of the layer's memory variables, by distance from the wall; E at
/// whole cells, H at halves. The last entry of E is at the end of the layer and has no effect.
struct layer_profile {
  float e_decay[layer_depth + 1], e_feed[layer_depth + 1];
  float h_decay[layer_depth], h_feed[layer_depth];
};

/// Non-owning view for kernels, passed by value.
struct grid {
  u32 n;               ///< cells along each axis
  u32 first, last;     ///< planes along z of this PE, end exclusive
  u32 begin, end;      ///< those planes that a launch works on
  boundary kind[3];    ///< x, y, z
  float time_step;     ///< the time step of the kernels
  float *e[3], *h[3];  ///< padded; address cells with at()
  float *keep, *gain;  ///< not padded: E becomes keep * E + gain * curl H
  float *memory[3];    ///< absorbing axes: four arrays of layer_size(axis) for E and H, first and
                       ///< second component
  layer_profile profile;

  TND_HD long pitch(u32 axis) const {
    return axis == 0 ? 1 : axis == 1 ? long(n + 2) : long(n + 2) * long(n + 2);
  }
  TND_HD long at(long i, long j, long k) const {
    return ((k - long(first) + 1) * long(n + 2) + j + 1) * long(n + 2) + i + 1;
  }
  TND_HD u64 cell(u64 i, u64 j, u64 k) const {
    return ((k - first) * n + j) * n + i;
  }
  TND_HD u64 cell_count() const {
    return u64(last - first) * n * n;
  }
  TND_HD u64 layer_size(u32 axis) const {
    return u64(2) * layer_depth * n * (axis == 2 ? n : last - first);
  }
  /// Rows along x of the planes of a launch, for `rows` functions.
  TND_HD u64 row_count() const {
    return u64(end - begin) * n;
  }
  TND_HD u32 row_y(u64 row) const {
    return u32(row % n);
  }
  TND_HD u32 row_z(u64 row) const {
    return begin + u32(row / n);
  }
  /// The number of the 2 * layer_depth planes of an axis's layers that precede `index`.
  TND_HD u32 layer_planes_before(u32 index) const {
    u32 const second = n - layer_depth;
    return index <= layer_depth ? index
           : index <= second    ? layer_depth
                                : layer_depth + index - second;
  }
  /// First index along `axis` at which E along the wall is updated.
  TND_HD u32 first_inside(u32 axis) const {
    return kind[axis] == boundary::periodic ? 0 : 1;
  }
  /// A view for launches only on the planes from `from` to before `until`.
  grid part(u32 from, u32 until) const {
    grid result = *this;
    result.begin = from;
    result.end = until;
    return result;
  }
};

/// The time step, just below the limit of Courant, Friedrichs and Lewy.
inline float stable_time_step() {
  return 0.99f / std::sqrt(3.0f);
}

inline layer_profile make_layer_profile(float time_step) {
  auto const at_depth = [&](float depth, float &decay, float &feed) {
    float const share = depth / float(layer_depth);  // 0 where the layer begins, 1 at the wall
    float const sigma = 3.2f * share * share * share, alpha = 0.06f * (1.0f - share) + 0.002f;
    decay = std::exp(-(sigma + alpha) * time_step);
    feed = sigma / (sigma + alpha) * (decay - 1.0f);
  };
  layer_profile result{};
  for (u32 p = 0; p <= layer_depth; p++)
    at_depth(float(layer_depth) - float(p), result.e_decay[p], result.e_feed[p]);
  for (u32 p = 0; p < layer_depth; p++)
    at_depth(float(layer_depth) - float(p) - 0.5f, result.h_decay[p], result.h_feed[p]);
  return result;
}

/// The memory of a PE's slab of a grid. All PEs create it together. Its fields are symmetric
/// memory, which lives as long as the job.
class grid_storage {
 public:
  grid_storage(u32 n, const boundary (&kind)[3], float time_step)
      : parts_{n, u32(shmem_n_pes())}, me_(u32(shmem_my_pe())), view_{} {
    if (parts_.count > n)
      throw std::runtime_error("more PEs than planes of " + std::to_string(n) + "^3 cells");
    view_.n = n;
    view_.begin = parts_.first(me_);
    view_.first = view_.begin;
    view_.end = parts_.last(me_);
    view_.last = view_.end;
    view_.time_step = time_step;
    for (u32 axis = 0; axis < 3; axis++) {
      view_.kind[axis] = kind[axis];
      view_.e[axis] = examples::device_symmetric<float>(padded_count());
      view_.h[axis] = examples::device_symmetric<float>(padded_count());
      if (kind[axis] == boundary::absorbing)
        memory_[axis] = examples::device_array<float>(4 * view_.layer_size(axis));
      view_.memory[axis] = memory_[axis].data();
    }
    keep_ = examples::device_array<float>(view_.cell_count());
    gain_ = examples::device_array<float>(view_.cell_count());
    view_.keep = keep_.data();
    view_.gain = gain_.data();
    view_.profile = make_layer_profile(time_step);
  }

  const grid &view() const noexcept {
    return view_;
  }
  const slabs &parts() const noexcept {
    return parts_;
  }
  u32 me() const noexcept {
    return me_;
  }

  /// Resets the field to zero and keeps the materials. Collective: no PE continues before all have
  /// done so.
  void clear_field() {
    examples::device_wait();
    shmem_barrier_all();  // the neighbours' planes have arrived
    for (u32 axis = 0; axis < 3; axis++) {
      examples::device_clear(view_.e[axis], padded_count() * sizeof(float));
      examples::device_clear(view_.h[axis], padded_count() * sizeof(float));
      if (memory_[axis].count() > 0)
        memory_[axis].clear();
    }
    examples::device_wait();
    shmem_barrier_all();
  }

  /// Ez of plane `k`, padded, whichever PE owns it. All PEs' kernels have run, and none may run
  /// meanwhile.
  std::vector<float> ez_plane(u32 k) const {
    u32 const pe = parts_.owner(k);
    std::vector<float> plane(plane_count());
    shmem_getmem(plane.data(),
                 view_.e[2] + u64(k - parts_.first(pe) + 1) * plane_count(),
                 plane.size() * sizeof(float),
                 int(pe));
    return plane;
  }
  /// Cell (i, j) of a padded plane.
  std::size_t in_plane(u32 i, u32 j) const {
    return std::size_t(j + 1) * (view_.n + 2) + i + 1;
  }

 private:
  u64 plane_count() const {
    return u64(view_.n + 2) * (view_.n + 2);
  }
  u64 padded_count() const {
    return plane_count() * (parts_.planes_max() + 2);
  }

  slabs parts_;
  u32 me_;
  grid view_;
  examples::device_array<float> memory_[3], keep_, gain_;
};

}  // namespace fdtd
