// examples/fdtd/physics.hpp: Maxwell's curl equations on the Yee grid as kernels, and one time step
// made of them.
//
// A kernel iterates over rows of cells along x. examples::lanes_a_row lanes share a row. A lane
// takes the same part of the rows in every kernel.
#pragma once

#include "grid.hpp"

namespace fdtd {

struct row_share {
  u64 first, last;
  u32 lane;
};

TND_DEVICE inline row_share my_rows(u64 row_count) {
  u64 const team = tanada::simt::global_thread_rank() / examples::lanes_a_row;
  u64 const team_count =
      u64(tanada::simt::grid_size_x()) * tanada::simt::block_thread_count() / examples::lanes_a_row;
  u64 const each = (row_count + team_count - 1) / team_count, first = team * each;
  u64 const last = first + each < row_count ? first + each : row_count;
  return {first, last, u32(tanada::simt::global_thread_rank() % examples::lanes_a_row)};
}

/// Advances H by half a step: H -= dt * curl E.
static TND_KERNEL void update_h(grid g) {
  row_share const rows = my_rows(g.row_count());
  long const to_y = g.pitch(1), to_z = g.pitch(2);
  float const dt = g.time_step;
  for (u64 row = rows.first; row < rows.last; row++) {
    long const at = g.at(0, g.row_y(row), g.row_z(row));
    const float *ex = g.e[0] + at, *ey = g.e[1] + at, *ez = g.e[2] + at;
    float *hx = g.h[0] + at, *hy = g.h[1] + at, *hz = g.h[2] + at;
    for (long i = rows.lane; i < long(g.n); i += examples::lanes_a_row) {
      hx[i] -= dt * ((ez[i + to_y] - ez[i]) - (ey[i + to_z] - ey[i]));
      hy[i] -= dt * ((ex[i + to_z] - ex[i]) - (ez[i + 1] - ez[i]));
      hz[i] -= dt * ((ey[i + 1] - ey[i]) - (ex[i + to_y] - ex[i]));
    }
  }
}

/// Advances E by a step: E = keep * E + gain * curl H.
static TND_KERNEL void update_e(grid g) {
  row_share const rows = my_rows(g.row_count());
  long const to_y = g.pitch(1), to_z = g.pitch(2);
  for (u64 row = rows.first; row < rows.last; row++) {
    u32 const j = g.row_y(row), k = g.row_z(row);
    u64 const cells = g.cell(0, j, k);
    long const at = g.at(0, j, k);
    float *ex = g.e[0] + at, *ey = g.e[1] + at, *ez = g.e[2] + at;
    const float *hx = g.h[0] + at, *hy = g.h[1] + at, *hz = g.h[2] + at;
    const float *keep = g.keep + cells, *gain = g.gain + cells;
    // On a wall a component along it must not change: its gain is 0, and so is its value.
    float const in_y = j >= g.first_inside(1) ? 1.0f : 0.0f,
                in_z = k >= g.first_inside(2) ? 1.0f : 0.0f;
    float const ey_wall = g.first_inside(0) == 0 ? 1.0f : 0.0f;
    for (long i = rows.lane; i < long(g.n); i += examples::lanes_a_row) {
      float const in_x = i > 0 ? 1.0f : ey_wall;
      ex[i] = keep[i] * ex[i] +
              in_y * in_z * gain[i] * ((hz[i] - hz[i - to_y]) - (hy[i] - hy[i - to_z]));
      ey[i] =
          keep[i] * ey[i] + in_x * in_z * gain[i] * ((hx[i] - hx[i - to_z]) - (hz[i] - hz[i - 1]));
      ez[i] =
          keep[i] * ez[i] + in_x * in_y * gain[i] * ((hy[i] - hy[i - 1]) - (hx[i] - hx[i - to_y]));
    }
  }
}

/// The position of cell number `slab` of the two layers of an axis, and its distance from its wall.
struct layer_place {
  u32 index, depth;
};
template <bool IsE>
TND_DEVICE layer_place place_in_layer(u32 slab, u32 n) {
  if (slab < layer_depth)
    return {slab, slab};
  u32 const index = n - 2 * layer_depth + slab;
  return {index, IsE ? n - index : n - 1 - index};
}

/// The two components across an axis: the one that the layer changes, the one that it reads, and
/// its memory.
struct layer_fields {
  float *target[2];
  const float *source[2];
  float *memory[2];
  const float *decay, *feed;  // by depth
};
template <bool IsE>
TND_DEVICE layer_fields fields_of_layer(const grid &g, u32 axis, u32 first, u32 second) {
  u64 const size = g.layer_size(axis);
  float *const memory = g.memory[axis] + (IsE ? 0 : 2 * size), *const next = memory + size;
  if (IsE) {
    return {{g.e[first], g.e[second]},
            {g.h[first], g.h[second]},
            {memory, next},
            g.profile.e_decay,
            g.profile.e_feed};
  }
  return {{g.h[first], g.h[second]},
          {g.e[first], g.e[second]},
          {memory, next},
          g.profile.h_decay,
          g.profile.h_feed};
}

/// The layers' contribution along `Axis` to E (after update_e) or to H (after update_h): the
/// derivative along the axis, with a decaying memory.
template <u32 Axis, bool IsE>
TND_KERNEL void absorb(grid g) {
  constexpr u32 slabs = 2 * layer_depth, first = (Axis + 1) % 3, second = (Axis + 2) % 3;
  u32 const n = g.n, row_size = Axis == 0 ? slabs : n, row_count_y = Axis == 1 ? slabs : n;
  u32 const first_z = Axis == 2 ? g.layer_planes_before(g.begin) : g.begin;
  u32 const last_z = Axis == 2 ? g.layer_planes_before(g.end) : g.end;
  row_share const rows = my_rows(u64(row_count_y) * (last_z - first_z));
  layer_fields const fields = fields_of_layer<IsE>(g, Axis, first, second);
  long const step = IsE ? -g.pitch(Axis) : g.pitch(Axis);
  float const sign = IsE ? 1.0f : -1.0f;  // a backward difference for E, a forward one for H
  for (u64 row = rows.first; row < rows.last; row++) {
    u32 const b = u32(row % row_count_y), c = first_z + u32(row / row_count_y);
    u64 const remembered = (u64(Axis == 2 ? c : c - g.first) * row_count_y + b) * row_size;
    for (u32 a = rows.lane; a < row_size; a += examples::lanes_a_row) {
      layer_place const place = place_in_layer<IsE>(Axis == 0 ? a : Axis == 1 ? b : c, n);
      u32 const position[3] = {
          Axis == 0 ? place.index : a, Axis == 1 ? place.index : b, Axis == 2 ? place.index : c};
      long const at = g.at(position[0], position[1], position[2]);
      float psi[2];
      for (u32 i = 0; i < 2; i++) {
        float &kept = fields.memory[i][remembered + a];
        float const slope = sign * (fields.source[i][at] - fields.source[i][at + step]);
        kept = fields.decay[place.depth] * kept + fields.feed[place.depth] * slope;
        psi[i] = kept;
      }
      if constexpr (IsE) {
        if (place.index == 0)
          continue;  // the wall
        float const gain = g.gain[g.cell(position[0], position[1], position[2])];
        if (position[first] >= g.first_inside(first))
          fields.target[1][at] += gain * psi[0];
        if (position[second] >= g.first_inside(second))
          fields.target[0][at] -= gain * psi[1];
      } else {
        fields.target[1][at] -= g.time_step * psi[0];
        fields.target[0][at] += g.time_step * psi[1];
      }
    }
  }
}

/// Fills the ghost planes of a periodic axis: E of plane 0 to plane n, H of plane n - 1 to plane
/// -1. Along z only for a single PE.
template <bool IsE>
TND_KERNEL void wrap(grid g, u32 axis) {
  u32 const other = axis == 0 ? 1 : 0, third = 3 - axis - other;
  u32 const first = third == 2 ? g.begin : 0;
  row_share const rows = my_rows(third == 2 ? g.end - g.begin : g.n);
  long const source = IsE ? 0 : long(g.n) - 1, target = IsE ? long(g.n) : -1;
  for (u64 row = rows.first; row < rows.last; row++)
    for (u32 i = rows.lane; i < g.n; i += examples::lanes_a_row) {
      long position[3] = {};
      position[other] = i;
      position[third] = long(first + row);
      position[axis] = source;
      long const from = g.at(position[0], position[1], position[2]);
      long const to = from + (target - source) * g.pitch(axis);
      for (u32 component = 0; component < 3; component++) {
        float *const field = IsE ? g.e[component] : g.h[component];
        field[to] = field[from];
      }
    }
}

/// The coefficients of empty space.
static TND_KERNEL void fill_with_vacuum(grid g) {
  u64 const step = u64(tanada::simt::grid_size_x()) * tanada::simt::block_thread_count();
  for (u64 at = tanada::simt::global_thread_rank(); at < g.cell_count(); at += step) {
    g.keep[at] = 1;
    g.gain[at] = g.time_step;
  }
}

/// A current in the plane x = `x`, along z, strongest in the middle. It radiates a beam of
/// half-width `waist` in both directions. A soft source: it adds to the field and does not reflect
/// waves.
static TND_KERNEL void excite(grid g, u32 x, float waist, float amplitude) {
  row_share const rows = my_rows(g.end - g.begin);
  for (u64 row = rows.first; row < rows.last; row++)
    for (u32 j = rows.lane; j < g.n; j += examples::lanes_a_row) {
      u32 const k = g.begin + u32(row);
      float const from_y = (float(j) - 0.5f * float(g.n)) / waist;
      float const from_z = (float(k) + 0.5f - 0.5f * float(g.n)) / waist;
      if (j >= 1)
        g.e[2][g.at(x, j, long(k))] += amplitude * expf(-from_y * from_y - from_z * from_z);
    }
}

/// A pulse of some periods, and the plane of its source.
struct source {
  u32 x = 0;
  float waist = 1, frequency = 0, duration = 1;  ///< duration: until the envelope has decayed to
                                                 ///< 1/e
  float at(float time) const {
    float const from_peak = (time - 2.6f * duration) / duration;
    return std::exp(-from_peak * from_peak) *
           std::sin(6.2831853f * frequency * (time - 2.6f * duration));
  }
};

/// Launches wrap() for a periodic axis.
template <bool IsE>
void launch_wrap(const grid &g, u32 axis) {
  bool const is_ours =
      axis != 2 || (g.begin == 0 && g.end == g.n);  // along z the neighbours may have the data
  if (g.kind[axis] != boundary::periodic || !is_ours)
    return;
  auto const shape = examples::shape_for_rows(axis == 2 ? g.n : g.end - g.begin);
  tanada::simt::launch(shape.grid, shape.block, wrap<IsE>, g, axis);
}
template <bool IsE>
void launch_ghosts(const grid &g) {
  for (u32 axis = 0; axis < 3; axis++)
    launch_wrap<IsE>(g, axis);
}

template <u32 Axis, bool IsE>
void launch_axis(const grid &g) {
  if (g.kind[Axis] == boundary::absorbing) {
    u32 const planes =
        Axis == 2 ? g.layer_planes_before(g.end) - g.layer_planes_before(g.begin) : g.end - g.begin;
    if (planes == 0)
      return;
    auto const shape = examples::shape_for_rows(u64(planes) * (Axis == 1 ? 2 * layer_depth : g.n));
    tanada::simt::launch(shape.grid, shape.block, absorb<Axis, IsE>, g);
  }
  launch_wrap<IsE>(g, Axis);
}

/// Launches H's half of a time step on the planes of `g`. Returns before it has run.
inline void launch_h(const grid &g) {
  if (g.begin == g.end)
    return;
  auto const shape = examples::shape_for_rows(g.row_count());
  tanada::simt::launch(shape.grid, shape.block, update_h, g);
  launch_axis<0, false>(g);
  launch_axis<1, false>(g);
  launch_axis<2, false>(g);
}

/// Launches E's half; `time` is that of the step's end. Returns before it has run.
inline void launch_e(const grid &g, const source *pulse, float time) {
  if (g.begin == g.end)
    return;
  auto const shape = examples::shape_for_rows(g.row_count());
  tanada::simt::launch(shape.grid, shape.block, update_e, g);
  if (pulse != nullptr) {
    auto const plane = examples::shape_for_rows(g.end - g.begin);
    tanada::simt::launch(
        plane.grid, plane.block, excite, g, pulse->x, pulse->waist, pulse->at(time));
  }
  launch_axis<0, true>(g);
  launch_axis<1, true>(g);
  launch_axis<2, true>(g);
}

}  // namespace fdtd
