// examples/fdtd/simulation.hpp: a run: its steps, its snapshots, and their cost.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "../common/outcome.hpp"
#include "snapshots.hpp"
#include "stepper.hpp"

namespace fdtd {

inline source make_source(u32 n) {
  source pulse;
  float const size = float(n), wavelength = size / 9 < 8 ? 8 : size / 9;
  pulse.x = layer_depth + 3;
  pulse.waist = 0.21f * size;
  pulse.frequency = 1 / wavelength;
  pulse.duration = 2.6f * wavelength;
  return pulse;
}

struct run_settings {
  u32 step_count, steps_a_snapshot;
  u32 snapshot_count() const {
    return (step_count + steps_a_snapshot - 1) / steps_a_snapshot;
  }
};

/// Seconds of a run.
struct run_times {
  double total = 0;    ///< from the first step until the last snapshot is stored
  double lost = 0;     ///< part of it: steps could not run because a snapshot was being taken
  double drained = 0;  ///< part of it: after the last step, for the snapshots in flight
};

/// Waits for the kernels at the end of a scope, also on errors: none may run when its memory is
/// freed.
class kernels_settled {
 public:
  kernels_settled() = default;
  kernels_settled(const kernels_settled &) = delete;
  kernels_settled &operator=(const kernels_settled &) = delete;
  ~kernels_settled() {
    try {
      examples::device_wait();
    } catch (const std::exception &) {
      // The error that ends the run is already being thrown.
    }
  }
};

/// Runs all steps, with a snapshot at intervals and after the last step; `taken` may be null.
/// `shown`(step) is called with the number of steps that have run. The host is at most two snapshot
/// intervals ahead of the kernels. Collective. Throws.
template <class Shown>
run_times run_steps(stepper &steps, const run_settings &wanted, snapshots *taken, Shown shown) {
  using clock = std::chrono::steady_clock;
  auto const seconds_since = [](clock::time_point then) {
    return std::chrono::duration<double>(clock::now() - then).count();
  };
  grid const &g = steps.view();
  source const pulse = make_source(g.n);
  examples::moment reached[2];
  kernels_settled const settled;
  run_times result;
  double const lost_before = taken != nullptr ? taken->lost_seconds() : 0;
  auto const start = clock::now();
  u32 part = 0;
  for (u32 step = 0; step < wanted.step_count; part++) {
    reached[part % 2].wait();
    if (part >= 2)
      shown((part - 1) * wanted.steps_a_snapshot);
    u32 const until = std::min(step + wanted.steps_a_snapshot, wanted.step_count);
    for (; step < until; step++)
      steps.step(&pulse, float(step + 1) * g.time_step);
    reached[part % 2].record();
    if (taken != nullptr)
      taken->take(step);
  }
  steps.complete();
  examples::await_kernels("run the steps");
  shown(wanted.step_count);
  auto const stepped = clock::now();
  if (taken != nullptr) {
    taken->finish();
    result.drained = seconds_since(stepped);
    result.lost = taken->lost_seconds() - lost_before;
  }
  result.total = seconds_since(start);
  return result;
}

/// Runs the same steps with each of `ways` (null: no snapshots) in turn, `round_count` times,
/// starting with another one each time. Returns a list of run times for each. Throws.
inline std::vector<std::vector<run_times>> run_rounds(stepper &steps,
                                                      const run_settings &wanted,
                                                      const std::vector<snapshots *> &ways,
                                                      u32 round_count) {
  std::vector<std::vector<run_times>> result(ways.size());
  for (u32 round = 0; round < round_count; round++)
    for (std::size_t i = 0; i < ways.size(); i++) {
      std::size_t const way = (round + i) % ways.size();
      steps.storage().clear_field();
      result[way].push_back(run_steps(steps, wanted, ways[way], [](u32) {}));
    }
  return result;
}

inline double median_total(const std::vector<run_times> &runs) {
  std::vector<double> totals;
  for (const run_times &run : runs)
    totals.push_back(run.total);
  std::sort(totals.begin(), totals.end());
  std::size_t const middle = totals.size() / 2;
  return totals.size() % 2 != 0 ? totals[middle] : (totals[middle - 1] + totals[middle]) / 2;
}

}  // namespace fdtd
