// examples/lbm/lattice.hpp: D3Q19, the lattice of Qian, d'Humieres and Lallemand (1992), and a slab
// of it for kernels.
//
// A PE has a slab of planes, and the planes form a ring through all PEs. Populations are stored
// plane by plane: first those that move up, then those that move down, then those that stay in
// their plane. The part of a plane that a neighbour gets is therefore contiguous. A field has a
// ghost plane below its first plane and one above its last. There are two fields: a step reads one
// and writes the other.
#pragma once

#include <tanada/device/gfile.cuh>

namespace lbm {

using tanada::u32;
using tanada::u64;

inline constexpr u32 population_count = 19,
                     crossing_count = 5;  // of which this many move up, and as many down

struct velocity {
  int x, y, z;
};
TND_HD inline velocity velocity_of(u32 q) {
  constexpr signed char table[population_count][3] = {{0, 0, 1},
                                                      {1, 0, 1},
                                                      {-1, 0, 1},
                                                      {0, 1, 1},
                                                      {0, -1, 1},  // up
                                                      {0, 0, -1},
                                                      {-1, 0, -1},
                                                      {1, 0, -1},
                                                      {0, -1, -1},
                                                      // down: each the opposite of the one five
                                                      // before
                                                      {0, 1, -1},
                                                      {0, 0, 0},
                                                      {1, 0, 0},
                                                      {-1, 0, 0},
                                                      {0, 1, 0},
                                                      {0, -1, 0},
                                                      {1, 1, 0},
                                                      {-1, -1, 0},
                                                      {1, -1, 0},
                                                      {-1, 1, 0}};
  return {table[q][0], table[q][1], table[q][2]};
}
TND_HD inline u32 opposite(u32 q) {
  if (q < crossing_count)
    return q + crossing_count;
  if (q < 2 * crossing_count)
    return q - crossing_count;
  if (q == 10)
    return q;
  return ((q - 11) ^ 1) + 11;
}
TND_HD inline double weight_of(u32 q) {
  velocity const c = velocity_of(q);
  int const length = c.x * c.x + c.y * c.y + c.z * c.z;
  return length == 0 ? 1.0 / 3 : length == 1 ? 1.0 / 18 : 1.0 / 36;
}

/// Units of the lattice: a cell and a step have length 1.
struct fluid {
  double relaxation = 0.9;  // steps; the viscosity is (relaxation - 1/2) / 3
  double force = 1e-6;      // along x, of each cell
  double viscosity() const {
    return (relaxation - 0.5) / 3;
  }
};

struct slab {
  u32 width, height, depth;  // cells along x, y (between the two walls), z (of this PE)
  fluid of;
  double *fields[2];  // symmetric

  TND_HD u64 plane_cells() const {
    return u64(width) * height;
  }
  TND_HD u64 plane_count() const {
    return plane_cells() * population_count;
  }  // doubles of a plane
  TND_HD u64 crossing() const {
    return plane_cells() * crossing_count;
  }  // doubles of it that a neighbour gets
  TND_HD u64 count() const {
    return plane_count() * (depth + 2);
  }  // doubles of a field
  /// z from -1 to depth.
  TND_HD u64 at(u32 q, u32 x, u32 y, long z) const {
    return u64(z + 1) * plane_count() + (u64(q) * height + y) * width + x;
  }
  /// The offsets of the upward and downward populations of a plane.
  TND_HD u64 going_up(long z) const {
    return u64(z + 1) * plane_count();
  }
  TND_HD u64 going_down(long z) const {
    return going_up(z) + crossing();
  }
};

/// The populations that arrive in a cell. At a wall, populations that moved towards it bounce back.
TND_DEVICE inline void stream_to(
    const slab &s, const double *from, u32 x, u32 y, u32 z, double (&f)[population_count]) {
  TND_UNROLL
  for (u32 q = 0; q < population_count; q++) {
    velocity const c = velocity_of(q);
    long const came_y = long(y) - c.y;
    if (came_y < 0 || came_y >= long(s.height)) {
      f[q] = from[s.at(opposite(q), x, y, z)];
      continue;
    }
    u32 const came_x = c.x == 0  ? x
                       : c.x > 0 ? (x == 0 ? s.width - 1 : x - 1)
                                 : (x + 1 == s.width ? 0 : x + 1);
    f[q] = from[s.at(q, came_x, u32(came_y), long(z) - c.z)];
  }
}

/// The collision of Bhatnagar, Gross and Krook, with a force after Guo, Zheng and Shi (2002).
TND_DEVICE inline void collide(const fluid &of, double (&f)[population_count]) {
  double density = 0, flow_x = 0, flow_y = 0, flow_z = 0;
  TND_UNROLL
  for (u32 q = 0; q < population_count; q++) {
    velocity const c = velocity_of(q);
    density += f[q];
    flow_x += c.x * f[q];
    flow_y += c.y * f[q];
    flow_z += c.z * f[q];
  }
  double const x = (flow_x + of.force / 2) / density, y = flow_y / density, z = flow_z / density;
  double const rate = 1 / of.relaxation, square = x * x + y * y + z * z;
  TND_UNROLL
  for (u32 q = 0; q < population_count; q++) {
    velocity const c = velocity_of(q);
    double const along = c.x * x + c.y * y + c.z * z, weight = weight_of(q);
    double const equilibrium =
        weight * density * (1 + 3 * along + 4.5 * along * along - 1.5 * square);
    double const pushed = (1 - rate / 2) * weight * of.force * (3 * (c.x - x) + 9 * along * c.x);
    f[q] += rate * (equilibrium - f[q]) + pushed;
  }
}

/// The velocity along x of a cell of a field, as stored between steps.
inline double flow_along_x(const slab &s, const double *field, u32 x, u32 y, u32 z) {
  double density = 0, flow = s.of.force / 2;
  for (u32 q = 0; q < population_count; q++) {
    double const f = field[s.at(q, x, y, z)];
    density += f;
    flow += velocity_of(q).x * f;
  }
  return flow / density;
}

/// A fluid at rest.
static TND_KERNEL void fill(slab s) {
  u64 const all = u64(tanada::simt::grid_size_x()) * tanada::simt::block_thread_count();
  for (u64 i = tanada::simt::global_thread_rank(); i < s.count(); i += all) {
    double const value = weight_of(u32(i % s.plane_count() / s.plane_cells()));
    s.fields[0][i] = value;
    s.fields[1][i] = value;
  }
}

/// One block: the mass of the slab's fluid, in one part for each thread.
static TND_KERNEL void weigh(slab s, u32 step, double *parts) {
  double const *const field = s.fields[step % 2];
  u32 const thread = tanada::simt::thread_rank_in_block();
  double part = 0;
  for (u64 i = s.at(0, 0, 0, 0) + thread; i < s.at(0, 0, 0, s.depth);
       i += tanada::simt::block_thread_count())
    part += field[i];
  parts[thread] = part;
}

/// Rows of cells of planes [first, last), shared by blocks `block` of `block_count`.
struct share {
  u32 first, last, block, block_count;
};
template <class Store>
TND_DEVICE inline void step_planes(const slab &s, u32 step, const share &mine, Store store) {
  double const *const from = s.fields[step % 2];
  u64 const rows = u64(mine.last - mine.first) * s.height;
  for (u64 row = mine.block; row < rows; row += mine.block_count) {
    u32 const y = u32(row % s.height), z = mine.first + u32(row / s.height);
    for (u32 x = tanada::simt::thread_index_x(); x < s.width; x += tanada::simt::block_size_x()) {
      double f[population_count];
      stream_to(s, from, x, y, z, f);
      collide(s.of, f);
      TND_UNROLL
      for (u32 q = 0; q < population_count; q++)
        store(q, x, y, z, f[q]);
    }
  }
}

/// Planes [first, last) of the slab.
static TND_KERNEL void step_part(slab s, u32 step, u32 first, u32 last) {
  double *const to = s.fields[(step + 1) % 2];
  step_planes(s,
              step,
              {first, last, tanada::simt::block_index_x(), tanada::simt::grid_size_x()},
              [&](u32 q, u32 x, u32 y, u32 z, double value) { to[s.at(q, x, y, z)] = value; });
}

}  // namespace lbm
