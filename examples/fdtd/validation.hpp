// fdtd/validation.hpp: the kernels against theory: how a cavity rings and how fast a plane wave goes.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "../common/outcome.hpp"
#include "physics.hpp"

namespace fdtd {

/// Ez = sin(pi x / n) sin(pi y / n): the TM110 mode of a box of conductor.
static TND_KERNEL void set_cavity_mode(grid g) {
  row_share const rows = my_rows(u64(g.n) * g.n);
  float const wave = 3.14159265f / float(g.n);
  for (u64 row = rows.first; row < rows.last; row++)
    for (u32 i = rows.lane; i < g.n; i += examples::lanes_a_row) {
      u32 const j = u32(row % g.n);
      g.e[2][g.at(i, j, long(row / g.n))] = sinf(wave * float(i)) * sinf(wave * float(j));
    }
}

/// Ez = -Hy = a Gaussian in x: a wave that goes towards +x. H is kept half a step before E.
static TND_KERNEL void set_plane_wave(grid g, float centre, float width, float time_step) {
  row_share const rows = my_rows(u64(g.n) * g.n);
  for (u64 row = rows.first; row < rows.last; row++)
    for (u32 i = rows.lane; i < g.n; i += examples::lanes_a_row) {
      float const e_from = (float(i) - centre) / width;
      float const h_from = (float(i) + 0.5f + 0.5f * time_step - centre) / width;
      long const at = g.at(i, long(row % g.n), long(row / g.n));
      g.e[2][at] = expf(-e_from * e_from);
      g.h[1][at] = -expf(-h_from * h_from);
    }
}

static TND_KERNEL void record_probe(grid g, u32 i, u32 j, u32 k, float *samples, u32 sample) {
  samples[sample] = g.e[2][g.at(i, j, k)];
}

struct measurement {
  const char *what;
  double measured, analytic;
};

inline void launch_rows(const grid &g, void (*kernel)(grid)) {
  auto const shape = examples::shape_for_rows(u64(g.n) * g.n);
  tanada::simt::launch(shape.grid, shape.block, kernel, g);
}

/// Zero crossings of the field in the middle, over whole periods, in cycles a unit of time.
inline measurement measure_cavity(float planted_factor) {
  constexpr u32 n = 24, step_count = 1200;
  double const step = stable_time_step();
  grid_storage storage(n, {boundary::conductor, boundary::conductor, boundary::conductor},
                       float(step) * planted_factor);
  examples::device_array<float> samples(step_count);
  launch_rows(storage.view(), fill_with_vacuum);
  launch_rows(storage.view(), set_cavity_mode);
  for (u32 s = 0; s < step_count; s++) {
    launch_step(storage.view(), nullptr, 0);
    tanada::simt::launch({1}, {1}, record_probe, storage.view(), n / 2, n / 2, n / 2, samples.data(), s);
  }
  examples::await_kernels();
  std::vector<float> const field = samples.to_host();
  double first = 0, last = 0;
  int crossings = 0;
  for (u32 s = 1; s < step_count; s++) {
    if (!(field[s - 1] < 0 && field[s] >= 0)) continue;
    last = s - field[s] / (field[s] - field[s - 1]);
    if (crossings++ == 0) first = last;
  }
  double const measured = crossings > 1 ? (crossings - 1) / ((last - first) * step) : 0;
  return {"TM110 frequency of a conducting box of 24 cells (cycles a unit of time)", measured,
          std::sqrt(2.0) / (2 * n)};
}

/// Distance that the centre of energy moves, by time.
inline measurement measure_plane_wave(float planted_factor) {
  constexpr u32 n = 64, step_count = 48;
  double const step = stable_time_step();
  grid_storage storage(n, {boundary::periodic, boundary::periodic, boundary::periodic}, float(step) * planted_factor);
  grid const g = storage.view();
  auto const centre_of_energy = [&] {
    std::vector<float> const ez = storage.ez_to_host();
    double weight = 0, sum = 0;
    for (u32 i = 0; i < n; i++) {
      double const field = ez[std::size_t(g.at(i, n / 3, n / 5))];
      weight += field * field;
      sum += field * field * i;
    }
    return weight > 0 ? sum / weight : 0;
  };
  launch_rows(g, fill_with_vacuum);
  auto const shape = examples::shape_for_rows(u64(n) * n);
  tanada::simt::launch(shape.grid, shape.block, set_plane_wave, g, 18.0f, 5.0f, float(step));
  tanada::simt::launch({8}, {examples::io_block_size}, wrap<true>, g, 0u);
  tanada::simt::launch({8}, {examples::io_block_size}, wrap<false>, g, 0u);
  for (u32 axis = 1; axis < 3; axis++) {
    tanada::simt::launch({8}, {examples::io_block_size}, wrap<true>, g, axis);
    tanada::simt::launch({8}, {examples::io_block_size}, wrap<false>, g, axis);
  }
  examples::await_kernels();
  double const start = centre_of_energy();
  for (u32 s = 0; s < step_count; s++) launch_step(g, nullptr, 0);
  examples::await_kernels();
  return {"speed of a plane wave in vacuum (of light's)", (centre_of_energy() - start) / (step_count * step), 1.0};
}

/// Print what was measured; true if it is within 1 % of theory.
inline bool report(const measurement &m) {
  double const error = std::fabs(m.measured - m.analytic) / m.analytic;
  bool const good = error < 0.01;
  std::printf("%s\n  measured %.6f\n  analytic %.6f\n  error    %.3f %% (limit 1 %%): %s\n", m.what, m.measured,
              m.analytic, 100 * error, good ? "passed" : "FAILED");
  return good;
}

}  // namespace fdtd
