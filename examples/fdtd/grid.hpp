// fdtd/grid.hpp: the Yee grid as kernels see it. Units: a cell is 1 long, light in vacuum goes 1 a unit of time.
//
// Arrays are (n + 2)^3 floats, x fastest, with a ghost plane at index -1 and one at index n of every axis. Cell
// (i, j, k) keeps Ex at (i + 1/2, j, k), Ey and Ez alike, Hx at (i, j + 1/2, k + 1/2), Hy and Hz alike. The walls
// lie in the planes 0 and n: E along a wall is never updated there and stays 0, a perfect conductor. An absorbing
// axis has a convolutional perfectly matched layer (Roden and Gedney, 2000) in front of its walls; on a periodic
// axis the ghost planes are copies.
#pragma once

#include <cmath>
#include <cstdint>

#include "../common/device_memory.hpp"

namespace fdtd {

using tanada::u32;
using tanada::u64;
using tanada::u8;

enum class boundary : u32 { absorbing, periodic, conductor };

inline constexpr u32 layer_depth = 8;  // cells of an absorbing layer

/// One time step's decay and feed of the layer's memory variables, by distance from the wall; E at whole cells, H at
/// halves. The last entry of E lies where the layer ends and does nothing.
struct layer_profile {
  float e_decay[layer_depth + 1], e_feed[layer_depth + 1];
  float h_decay[layer_depth], h_feed[layer_depth];
};

/// Non-owning view for kernels, passed by value.
struct grid {
  u32 n;               ///< cells an axis
  boundary kind[3];    ///< x, y, z
  float time_step;     ///< what the kernels step by
  float *e[3], *h[3];  ///< padded; address cells with at()
  float *keep, *gain;  ///< n^3: E becomes keep * E + gain * curl H
  float *memory[3];    ///< absorbing axes: four arrays of layer_size() for E and H, first and second component
  layer_profile profile;

  TND_HD long pitch(u32 axis) const { return axis == 0 ? 1 : axis == 1 ? long(n + 2) : long(n + 2) * long(n + 2); }
  TND_HD long at(long i, long j, long k) const { return ((k + 1) * long(n + 2) + j + 1) * long(n + 2) + i + 1; }
  TND_HD u64 cell(u64 i, u64 j, u64 k) const { return (k * n + j) * n + i; }
  TND_HD u64 layer_size() const { return u64(2) * layer_depth * n * n; }
  /// First index along `axis` at which E along the wall is updated.
  TND_HD u32 first(u32 axis) const { return kind[axis] == boundary::periodic ? 0 : 1; }
};

/// The step of the grid: just below the limit of Courant, Friedrichs and Lewy.
inline float stable_time_step() { return 0.99f / std::sqrt(3.0f); }

inline layer_profile make_layer_profile(float time_step) {
  auto const at_depth = [&](float depth, float &decay, float &feed) {
    float const share = depth / float(layer_depth);  // 0 where the layer begins, 1 at the wall
    float const sigma = 3.2f * share * share * share, alpha = 0.06f * (1.0f - share) + 0.002f;
    decay = std::exp(-(sigma + alpha) * time_step);
    feed = sigma / (sigma + alpha) * (decay - 1.0f);
  };
  layer_profile result{};
  for (u32 p = 0; p <= layer_depth; p++) at_depth(float(layer_depth) - float(p), result.e_decay[p], result.e_feed[p]);
  for (u32 p = 0; p < layer_depth; p++)
    at_depth(float(layer_depth) - float(p) - 0.5f, result.h_decay[p], result.h_feed[p]);
  return result;
}

/// The memory behind a grid.
class grid_storage {
 public:
  grid_storage(u32 n, const boundary (&kind)[3], float time_step) : view_{} {
    view_.n = n;
    view_.time_step = time_step;
    u64 const padded = u64(n + 2) * (n + 2) * (n + 2);
    for (u32 axis = 0; axis < 3; axis++) {
      view_.kind[axis] = kind[axis];
      e_[axis] = examples::device_array<float>(padded);
      h_[axis] = examples::device_array<float>(padded);
      view_.e[axis] = e_[axis].data();
      view_.h[axis] = h_[axis].data();
      if (kind[axis] == boundary::absorbing) memory_[axis] = examples::device_array<float>(4 * view_.layer_size());
      view_.memory[axis] = memory_[axis].data();
    }
    keep_ = examples::device_array<float>(u64(n) * n * n);
    gain_ = examples::device_array<float>(u64(n) * n * n);
    view_.keep = keep_.data();
    view_.gain = gain_.data();
    view_.profile = make_layer_profile(time_step);
  }

  const grid &view() const noexcept { return view_; }
  /// Back to no field at all; materials stay.
  void clear_field() {
    for (u32 axis = 0; axis < 3; axis++) {
      e_[axis].clear();
      h_[axis].clear();
      if (memory_[axis].count() > 0) memory_[axis].clear();
    }
  }
  /// E along z in host memory, padded.
  std::vector<float> ez_to_host() const { return e_[2].to_host(); }

 private:
  grid view_;
  examples::device_array<float> e_[3], h_[3], memory_[3], keep_, gain_;
};

}  // namespace fdtd
