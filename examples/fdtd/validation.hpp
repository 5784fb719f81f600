// examples/fdtd/validation.hpp: checks the kernels against theory: the frequency of a cavity and
// the speed of a plane wave.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "../common/outcome.hpp"
#include "stepper.hpp"

namespace fdtd {

/// Ez = sin(pi x / n) sin(pi y / n): the TM110 mode of a conducting box.
static TND_KERNEL void set_cavity_mode(grid g) {
  row_share const rows = my_rows(g.row_count());
  float const wave = 3.14159265f / float(g.n);
  for (u64 row = rows.first; row < rows.last; row++)
    for (u32 i = rows.lane; i < g.n; i += examples::lanes_a_row) {
      u32 const j = g.row_y(row);
      g.e[2][g.at(i, j, g.row_z(row))] = sinf(wave * float(i)) * sinf(wave * float(j));
    }
}

/// Ez = -Hy = a Gaussian in x: a wave that travels towards +x. H is half a step before E.
static TND_KERNEL void set_plane_wave(grid g, float centre, float width, float time_step) {
  row_share const rows = my_rows(g.row_count());
  for (u64 row = rows.first; row < rows.last; row++)
    for (u32 i = rows.lane; i < g.n; i += examples::lanes_a_row) {
      float const e_from = (float(i) - centre) / width;
      float const h_from = (float(i) + 0.5f + 0.5f * time_step - centre) / width;
      long const at = g.at(i, g.row_y(row), g.row_z(row));
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
  auto const shape = examples::shape_for_rows(g.row_count());
  tanada::simt::launch(shape.grid, shape.block, kernel, g);
}

/// The frequency from zero crossings of the field in the middle, over whole periods, in cycles per
/// unit of time. Collective: all PEs get the same value.
inline measurement measure_cavity(float planted_factor, exchange by) {
  constexpr u32 n = 24, step_count = 1200;
  double const step = stable_time_step();
  grid_storage storage(n,
                       {boundary::conductor, boundary::conductor, boundary::conductor},
                       float(step) * planted_factor);
  stepper steps(storage, by);
  u32 const owner = storage.parts().owner(n / 2);
  float *const samples = examples::device_symmetric<float>(step_count);
  launch_rows(storage.view(), fill_with_vacuum);
  launch_rows(storage.view(), set_cavity_mode);
  steps.begin();
  for (u32 s = 0; s < step_count; s++) {
    steps.step(nullptr, 0);
    if (storage.me() == owner)
      tanada::simt::launch({1}, {1}, record_probe, storage.view(), n / 2, n / 2, n / 2, samples, s);
  }
  examples::await_kernels();
  shmem_barrier_all();
  std::vector<float> field(step_count);
  shmem_getmem(field.data(), samples, field.size() * sizeof(float), int(owner));
  double first = 0, last = 0;
  int crossings = 0;
  for (u32 s = 1; s < step_count; s++) {
    if (!(field[s - 1] < 0 && field[s] >= 0))
      continue;
    last = s - field[s] / (field[s] - field[s - 1]);
    if (crossings++ == 0)
      first = last;
  }
  double const measured = crossings > 1 ? (crossings - 1) / ((last - first) * step) : 0;
  return {"TM110 frequency of a conducting box of 24 cells (cycles a unit of time)",
          measured,
          std::sqrt(2.0) / (2 * n)};
}

/// The speed of the centre of energy. Collective: all PEs get the same value.
inline measurement measure_plane_wave(float planted_factor, exchange by) {
  constexpr u32 n = 64, step_count = 48;
  double const step = stable_time_step();
  grid_storage storage(n,
                       {boundary::periodic, boundary::periodic, boundary::periodic},
                       float(step) * planted_factor);
  stepper steps(storage, by);
  grid const g = storage.view();
  auto const centre_of_energy = [&] {
    examples::await_kernels();
    shmem_barrier_all();
    std::vector<float> const ez = storage.ez_plane(n / 5);
    shmem_barrier_all();
    double weight = 0, sum = 0;
    for (u32 i = 0; i < n; i++) {
      double const field = ez[storage.in_plane(i, n / 3)];
      weight += field * field;
      sum += field * field * i;
    }
    return weight > 0 ? sum / weight : 0;
  };
  launch_rows(g, fill_with_vacuum);
  auto const shape = examples::shape_for_rows(g.row_count());
  tanada::simt::launch(shape.grid, shape.block, set_plane_wave, g, 18.0f, 5.0f, float(step));
  launch_ghosts<true>(g);
  launch_ghosts<false>(g);
  steps.begin();
  double const start = centre_of_energy();
  for (u32 s = 0; s < step_count; s++)
    steps.step(nullptr, 0);
  return {"speed of a plane wave in vacuum (of light's)",
          (centre_of_energy() - start) / (step_count * step),
          1.0};
}

/// Whether the measured value is within 1 % of theory; `is_told`: print it.
inline bool report(const measurement &m, bool is_told) {
  double const error = std::fabs(m.measured - m.analytic) / m.analytic;
  bool const good = error < 0.01;
  if (is_told)
    std::printf("%s\n  measured %.6f\n  analytic %.6f\n  error    %.3f %% (limit 1 %%): %s\n",
                m.what,
                m.measured,
                m.analytic,
                100 * error,
                good ? "passed" : "FAILED");
  return good;
}

}  // namespace fdtd
