// fdtd: a beam meets a ball of glass, by Maxwell's equations on a Yee grid. The kernels read the map of materials from
// a store and write snapshots of the field to it; the host only launches them.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <sstream>

#include "material.hpp"
#include "options.hpp"
#include "picture.hpp"
#include "physics.hpp"
#include "report.hpp"
#include "snapshot.hpp"
#include "validation.hpp"

namespace fdtd {
namespace {

constexpr u32 steps_a_snapshot = 10;
constexpr float planted_time_step = 1.03f;  // what --plant time-step multiplies the kernels' step by

boundary boundary_of(const std::string &name) {
  return name == "periodic" ? boundary::periodic : name == "conductor" ? boundary::conductor : boundary::absorbing;
}

source make_source(u32 n) {
  source pulse;
  float const size = float(n), wavelength = size / 9 < 8 ? 8 : size / 9;
  pulse.x = layer_depth + 3;
  pulse.waist = 0.21f * size;
  pulse.frequency = 1 / wavelength;
  pulse.duration = 2.6f * wavelength;
  return pulse;
}

u32 default_steps(u32 n) { return u32(1.46f * float(n) / stable_time_step() / steps_a_snapshot) * steps_a_snapshot; }

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

// All steps, with a snapshot every tenth; each is published after the steps that follow it.
void run_steps(const grid &g, const options &wanted, u32 step_count, snapshot_writer &snapshots, time_table &times) {
  source const pulse = make_source(g.n);
  progress shown(step_count, double(g.n) * g.n * g.n, !wanted.no_color);
  for (u32 step = 0; step < step_count;) {
    u32 const until = std::min(step + steps_a_snapshot, step_count);
    times.measure("compute", 0, [&] {
      for (; step < until; step++) launch_step(g, &pulse, float(step + 1) * g.time_step);
      await_kernels("run the steps while " + snapshots.under_way() + " is being written");
    });
    times.measure("publish", 0, [&] { snapshots.publish(); });
    times.measure("write snapshots", double(snapshots.size()),
                  [&] { snapshots.write(step, float(step) * g.time_step); });
    shown.update(step, snapshots.count());
  }
  times.measure("publish", 0, [&] { snapshots.publish(); });
  shown.finish();
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

std::string to_json(u32 n, u32 step_count, const snapshot_writer &snapshots, const time_table &times,
                    const tnd_gfile_statistics &s) {
  std::ostringstream out;
  out << "{\"program\": \"fdtd\", \"size\": " << n << ", \"steps\": " << step_count
      << ", \"snapshots\": " << snapshots.count() << ", \"is_cuda\": " << s.is_cuda
      << ", \"total_seconds\": " << times.total() << ", \"phases\": [";
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

void check_last_snapshot(const grid &g, const options &wanted, snapshot_writer &snapshots) {
  if (wanted.plant == "field") tanada::simt::launch({1}, {1}, flip_a_bit, g);
  u64 const differences = snapshots.count_differences();
  if (differences != 0)
    throw std::runtime_error(snapshots.last_url() + " differs from the field in " + std::to_string(differences) +
                             " cells");
}

int simulate(const options &wanted) {
  u32 const n = wanted.size, step_count = wanted.steps != 0 ? wanted.steps : default_steps(n);
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
  grid_storage const storage(n, {kind, kind, kind}, stable_time_step());
  grid const &g = storage.view();
  std::string const &map = wanted.material.empty() ? map_url : wanted.material;
  auto material = times.measure("read material", map_size, [&] { return load_material(g, map, outcome); });
  snapshot_writer snapshots(g, prefix);
  std::printf("%u^3 cells, %u steps, %s walls; snapshots of %.1f MB to %s\n", n, step_count, wanted.boundary.c_str(),
              double(snapshots.size()) / 1e6, prefix.c_str());
  run_steps(g, wanted, step_count, snapshots, times);
  times.measure("check", double(snapshots.size()), [&] { check_last_snapshot(g, wanted, snapshots); });
  std::string const picture = wanted.output + "/field.png";
  times.measure("picture", 0, [&] { write_picture(picture, middle_slice(storage, std::move(material))); });
  tnd_gfile_statistics const statistics = session.statistics();
  times.measure("finish", 0, [&] { session.finish(); });
  std::string const text = times.to_text() + statistics_text(statistics);
  write_text(wanted.output + "/timings.txt", text);
  write_text(wanted.output + "/timings.json", to_json(n, step_count, snapshots, times, statistics));
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
