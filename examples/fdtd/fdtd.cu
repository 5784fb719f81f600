// fdtd: a beam meets a ball of glass, by Maxwell's equations on a Yee grid. The kernels read the map of materials from
// a store; snapshots of the field go to a pool or to files while the steps go on, or out of kernels to the store.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <sstream>

#include "kernel_snapshots.hpp"
#include "material.hpp"
#include "options.hpp"
#include "picture.hpp"
#include "report.hpp"
#include "simulation.hpp"
#include "snapshot_writer.hpp"
#include "validation.hpp"

namespace fdtd {
namespace {

constexpr float planted_time_step = 1.03f;  // what --plant time-step multiplies the kernels' step by

boundary boundary_of(const std::string &name) {
  return name == "periodic" ? boundary::periodic : name == "conductor" ? boundary::conductor : boundary::absorbing;
}

u32 default_steps(u32 n) { return u32(1.46f * float(n) / stable_time_step() / 10) * 10; }

std::string store_prefix(const options &wanted) {
  std::string const prefix = wanted.store.empty() ? wanted.output + "/store" : wanted.store;
  if (wanted.store.empty()) std::filesystem::create_directories(prefix);
  return prefix;
}

int validate(const options &wanted) {
  examples::gfile_session session;
  float const factor = wanted.plant == "time-step" ? planted_time_step : 1.0f;
  bool const good = report(wanted.validate == "cavity" ? measure_cavity(factor) : measure_plane_wave(factor));
  session.finish();
  return good ? 0 : 1;
}

std::unique_ptr<snapshots> open_snapshots(const grid &g, const options &wanted, const std::string &store) {
  std::string const url = wanted.snapshots.empty() ? store : wanted.snapshots;
  if (wanted.snapshots.empty() || !is_host_target(url))
    return std::make_unique<kernel_snapshots>(g, url, wanted.synchronous);
  return std::make_unique<snapshot_writer>(g, writer_settings{url, wanted.buffers, wanted.synchronous});
}

/// What snapshots cost.
struct snapshot_cost {
  run_times run;                    ///< the run whose results are kept
  double without = 0, with = 0;     ///< medians of the comparison, s; 0: none was asked for
  u32 round_count = 0;

  std::string to_text() const {
    char text[240];
    int const length = std::snprintf(
        text, sizeof text, "share of time lost to snapshots: %.2f %% (the steps stood still for %.3f of %.3f s)\n",
        100 * run.lost / run.total, run.lost, run.total);
    if (round_count > 0)
      std::snprintf(text + length, sizeof text - std::size_t(length),
                    "against runs without snapshots: %+.2f %% (%.3f s, without %.3f s; medians of %u rounds)\n",
                    100 * (with / without - 1), with, without, round_count);
    return text;
  }
};

snapshot_cost run_all(grid_storage &storage, const options &wanted, const run_settings &settings, snapshots &taken,
                      time_table &times) {
  grid const &g = storage.view();
  progress shown(settings.step_count, double(g.n) * g.n * g.n, !wanted.no_color);
  snapshot_cost cost;
  cost.run = run_steps(g, settings, &taken, [&](u32 step) { shown.update(step, taken.count()); });
  shown.finish();
  times.add("compute", cost.run.total - cost.run.lost - cost.run.drained, 0);
  times.add("snapshots", cost.run.lost, double(npy_size(g.n)) * settings.snapshot_count());
  times.add("last snapshots", cost.run.drained, 0);
  if (wanted.compare_rounds == 0) return cost;
  std::printf("comparing with runs without snapshots: %u rounds\n", wanted.compare_rounds);
  std::fflush(stdout);
  times.measure("compare", 0, [&] {
    auto const rounds = run_rounds(storage, settings, {nullptr, &taken}, wanted.compare_rounds);
    cost.without = median_total(rounds[0]);
    cost.with = median_total(rounds[1]);
    cost.round_count = wanted.compare_rounds;
  });
  return cost;
}

slice middle_slice(const grid_storage &storage, std::vector<u8> material) {
  grid const &g = storage.view();
  std::vector<float> const ez = storage.ez_to_host();
  slice result{g.n, std::vector<float>(std::size_t(g.n) * g.n), std::move(material)};
  for (u32 j = 0; j < g.n; j++)
    for (u32 i = 0; i < g.n; i++) result.field[std::size_t(j) * g.n + i] = ez[std::size_t(g.at(i, j, g.n / 2))];
  return result;
}

std::string statistics_text(const tnd_gfile_statistics &s) {
  char text[400];
  std::snprintf(text, sizeof text,
                "gfile on the %s: %llu requests from kernels; pages: %llu device hits, %llu host hits, %llu misses, "
                "%llu uncached\n"
                "store: %llu reads, %.1f MB; %llu writes, %.1f MB; %llu write errors\n",
                s.is_cuda != 0 ? "GPU" : "host executor", (unsigned long long)s.requests,
                (unsigned long long)s.device_hits, (unsigned long long)s.host_hits, (unsigned long long)s.misses,
                (unsigned long long)s.uncached_transfers, (unsigned long long)s.store_reads,
                double(s.store_read_size) / 1e6, (unsigned long long)s.store_writes, double(s.store_write_size) / 1e6,
                (unsigned long long)s.write_errors);
  return text;
}

std::string to_json(u32 n, const run_settings &settings, const snapshot_cost &cost, const time_table &times,
                    const tnd_gfile_statistics &s) {
  std::ostringstream out;
  out << "{\"program\": \"fdtd\", \"size\": " << n << ", \"steps\": " << settings.step_count
      << ", \"snapshots\": " << settings.snapshot_count() << ", \"is_cuda\": " << s.is_cuda
      << ", \"total_seconds\": " << times.total() << ", \"run_seconds\": " << cost.run.total
      << ", \"lost_seconds\": " << cost.run.lost;
  if (cost.round_count > 0)
    out << ", \"compare\": {\"rounds\": " << cost.round_count << ", \"without_seconds\": " << cost.without
        << ", \"with_seconds\": " << cost.with << "}";
  out << ", \"phases\": [";
  const char *separator = "";
  for (const time_table::row &row : times.rows()) {
    out << separator << "{\"what\": \"" << row.what << "\", \"seconds\": " << row.seconds
        << ", \"bytes\": " << u64(row.bytes) << "}";
    separator = ", ";
  }
  out << "], \"gfile\": {\"requests\": " << s.requests << ", \"device_hits\": " << s.device_hits
      << ", \"host_hits\": " << s.host_hits << ", \"misses\": " << s.misses << ", \"store_reads\": " << s.store_reads
      << ", \"store_read_size\": " << s.store_read_size << ", \"store_writes\": " << s.store_writes
      << ", \"store_write_size\": " << s.store_write_size << ", \"write_errors\": " << s.write_errors << "}}\n";
  return out.str();
}

TND_KERNEL void flip_a_bit(grid g) {
  u32 *const cell = reinterpret_cast<u32 *>(&g.e[2][g.at(g.n / 3, g.n / 2, g.n - 2)]);
  *cell ^= 1;
}

void check_last_snapshot(const grid &g, const options &wanted, snapshots &taken) {
  if (wanted.plant == "field") tanada::simt::launch({1}, {1}, flip_a_bit, g);
  u64 const differences = taken.count_differences();
  if (differences != 0)
    throw std::runtime_error(taken.last_url() + " differs from the field in " + std::to_string(differences) +
                             " cells");
}

int simulate(const options &wanted) {
  u32 const n = wanted.size;
  run_settings const settings{wanted.steps != 0 ? wanted.steps : default_steps(n), wanted.steps_a_snapshot};
  std::string const prefix = store_prefix(wanted), map_url = examples::join_url(prefix, "material.map");
  time_table times;
  examples::gfile_session session;
  examples::kernel_outcome outcome;
  double const map_size = header_size + double(n) * n * n;
  if (wanted.material.empty()) {
    times.measure("make material", map_size, [&] { make_material(make_scene(n), map_url, outcome); });
    if (wanted.make_material) {
      session.finish();
      std::printf("%s: %.1f MB\n", map_url.c_str(), map_size / 1e6);
      return 0;
    }
  }
  std::filesystem::create_directories(wanted.output);
  boundary const kind = boundary_of(wanted.boundary);
  grid_storage storage(n, {kind, kind, kind}, stable_time_step());
  grid const &g = storage.view();
  std::string const &map = wanted.material.empty() ? map_url : wanted.material;
  auto material = times.measure("read material", map_size, [&] { return load_material(g, map, outcome); });
  std::unique_ptr<snapshots> const taken = open_snapshots(g, wanted, prefix);
  std::printf("%u^3 cells, %u steps, %s walls; a snapshot of %.1f MB every %u steps to %s\n", n, settings.step_count,
              wanted.boundary.c_str(), double(npy_size(n)) / 1e6, settings.steps_a_snapshot,
              (wanted.snapshots.empty() ? prefix : wanted.snapshots).c_str());
  std::fflush(stdout);
  snapshot_cost const cost = run_all(storage, wanted, settings, *taken, times);
  times.measure("check", double(npy_size(n)), [&] { check_last_snapshot(g, wanted, *taken); });
  std::string const picture = wanted.output + "/field.png";
  times.measure("picture", 0, [&] { write_picture(picture, middle_slice(storage, std::move(material))); });
  tnd_gfile_statistics const statistics = session.statistics();
  times.measure("finish", 0, [&] { session.finish(); });
  std::string const text = times.to_text() + statistics_text(statistics) + cost.to_text();
  write_text(wanted.output + "/timings.txt", text);
  write_text(wanted.output + "/timings.json", to_json(n, settings, cost, times, statistics));
  std::printf("%sthe last snapshot equals the field in every cell; the field: %s\n", text.c_str(), picture.c_str());
  return 0;
}

}  // namespace
}  // namespace fdtd

int main(int count, char **words) {
  fdtd::options wanted;
  int exit_code = 0;
  if (!fdtd::parse_options(count, words, wanted, exit_code)) return exit_code;
  try {
    return wanted.validate.empty() ? fdtd::simulate(wanted) : fdtd::validate(wanted);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "fdtd: %s\n", error.what());
    return 1;
  }
}
