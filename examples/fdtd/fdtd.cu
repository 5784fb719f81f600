// fdtd: a beam hits a ball of glass, by Maxwell's equations on a Yee grid. The kernels read the map
// of materials from a store. Snapshots of the field go to a pool or to files while the steps
// continue, or from kernels to the store. In a job of several PEs each has a slab of the grid, and
// edges move directly between the memories of their devices.
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
#include "slabs.hpp"
#include "snapshot_writer.hpp"
#include "validation.hpp"

namespace fdtd {
namespace {

constexpr float planted_time_step =
    1.03f;  // factor on the kernels' time step, for --plant time-step

boundary boundary_of(const std::string &name) {
  return name == "periodic"    ? boundary::periodic
         : name == "conductor" ? boundary::conductor
                               : boundary::absorbing;
}

exchange exchange_of(const std::string &name) {
  return name == "kernel" ? exchange::kernel : name == "stream" ? exchange::stream : exchange::host;
}

u32 default_steps(u32 n) {
  return u32(1.46f * float(n) / stable_time_step() / 10) * 10;
}

std::string store_prefix(const options &wanted) {
  std::string const prefix = wanted.store.empty() ? wanted.output + "/store" : wanted.store;
  if (wanted.store.empty())
    std::filesystem::create_directories(prefix);
  return prefix;
}

int validate(const options &wanted, const job &mine) {
  examples::gfile_session session(mine.device());
  exchange const by = exchange_of(wanted.exchange);
  float const factor = wanted.plant == "time-step" ? planted_time_step : 1.0f;
  bool const good = report(
      wanted.validate == "cavity" ? measure_cavity(factor, by) : measure_plane_wave(factor, by),
      mine.me() == 0);
  session.finish();
  return good ? 0 : 1;
}

std::unique_ptr<snapshots> open_snapshots(const grid_storage &storage,
                                          const options &wanted,
                                          const std::string &store) {
  std::string const url = wanted.snapshots.empty() ? store : wanted.snapshots;
  if (wanted.snapshots.empty() || !is_host_target(url))
    return std::make_unique<kernel_snapshots>(storage, url, wanted.synchronous);
  return std::make_unique<snapshot_writer>(
      storage, writer_settings{url, wanted.buffers, wanted.synchronous});
}

/// The cost of snapshots.
struct snapshot_cost {
  run_times run;                 ///< the run whose results are kept
  double without = 0, with = 0;  ///< medians of the comparison, s; 0: no comparison
  u32 round_count = 0;

  std::string to_text() const {
    char text[240];
    int const length = std::snprintf(
        text,
        sizeof text,
        "share of time lost to snapshots: %.2f %% (the steps stood still for %.3f of %.3f s)\n",
        100 * run.lost / run.total,
        run.lost,
        run.total);
    if (round_count > 0)
      std::snprintf(text + length,
                    sizeof text - std::size_t(length),
                    "against runs without snapshots: %+.2f %% (%.3f s, without %.3f s; medians of "
                    "%u rounds)\n",
                    100 * (with / without - 1),
                    with,
                    without,
                    round_count);
    return text;
  }
};

snapshot_cost run_all(grid_storage &storage,
                      const options &wanted,
                      const run_settings &settings,
                      snapshots &taken,
                      time_table &times) {
  grid const &g = storage.view();
  bool const is_first = storage.me() == 0;
  auto const style = wanted.lines      ? progress::style::lines
                     : wanted.no_color ? progress::style::plain
                                       : progress::style::color;
  progress shown(settings.step_count, double(g.n) * g.n * g.n, style);
  stepper steps(storage, exchange_of(wanted.exchange));
  snapshot_cost cost;
  cost.run = run_steps(steps, settings, &taken, [&](u32 step) {
    if (is_first)
      shown.update(step, taken.count());
  });
  if (is_first)
    shown.finish();
  times.add("compute", cost.run.total - cost.run.lost - cost.run.drained, 0);
  times.add("snapshots", cost.run.lost, double(npy_size(g.n)) * settings.snapshot_count());
  times.add("last snapshots", cost.run.drained, 0);
  if (wanted.compare_rounds == 0)
    return cost;
  if (is_first)
    std::printf("comparing with runs without snapshots: %u rounds\n", wanted.compare_rounds);
  std::fflush(stdout);
  times.measure("compare", 0, [&] {
    auto const rounds = run_rounds(steps, settings, {nullptr, &taken}, wanted.compare_rounds);
    cost.without = median_total(rounds[0]);
    cost.with = median_total(rounds[1]);
    cost.round_count = wanted.compare_rounds;
  });
  return cost;
}

slice middle_slice(const grid_storage &storage, std::vector<u8> material) {
  u32 const n = storage.view().n;
  std::vector<float> const ez = storage.ez_plane(n / 2);
  slice result{n, std::vector<float>(std::size_t(n) * n), std::move(material)};
  for (u32 j = 0; j < n; j++)
    for (u32 i = 0; i < n; i++)
      result.field[std::size_t(j) * n + i] = ez[storage.in_plane(i, j)];
  return result;
}

std::string statistics_text(const tnd_gfile_statistics &s) {
  char text[400];
  std::snprintf(text,
                sizeof text,
                "gfile on the %s: %llu requests from kernels; pages: %llu device hits, %llu host "
                "hits, %llu misses, "
                "%llu uncached\n"
                "store: %llu reads, %.1f MB; %llu writes, %.1f MB; %llu write errors\n",
                s.is_cuda != 0 ? "GPU" : "host executor",
                (unsigned long long)s.requests,
                (unsigned long long)s.device_hits,
                (unsigned long long)s.host_hits,
                (unsigned long long)s.misses,
                (unsigned long long)s.uncached_transfers,
                (unsigned long long)s.store_reads,
                double(s.store_read_size) / 1e6,
                (unsigned long long)s.store_writes,
                double(s.store_write_size) / 1e6,
                (unsigned long long)s.write_errors);
  return text;
}

/// Returns the sums of all PEs at the first PE. Collective.
tnd_gfile_statistics sum_statistics(tnd_gfile_statistics mine) {
  using count_of = uint64_t tnd_gfile_statistics::*;
  count_of const counts[] = {&tnd_gfile_statistics::requests,
                             &tnd_gfile_statistics::device_hits,
                             &tnd_gfile_statistics::host_hits,
                             &tnd_gfile_statistics::misses,
                             &tnd_gfile_statistics::uncached_transfers,
                             &tnd_gfile_statistics::store_reads,
                             &tnd_gfile_statistics::store_read_size,
                             &tnd_gfile_statistics::store_writes,
                             &tnd_gfile_statistics::store_write_size,
                             &tnd_gfile_statistics::write_errors};
  constexpr std::size_t count = sizeof counts / sizeof counts[0];
  auto *const words = examples::host_symmetric<uint64_t>(2 * count);
  for (std::size_t i = 0; i < count; i++)
    words[i] = mine.*counts[i];
  shmem_uint64_sum_reduce(SHMEM_TEAM_WORLD, words + count, words, count);
  for (std::size_t i = 0; i < count; i++)
    mine.*counts[i] = words[count + i];
  return mine;
}

std::string to_json(u32 n,
                    u32 pe_count,
                    const run_settings &settings,
                    const snapshot_cost &cost,
                    const time_table &times,
                    const tnd_gfile_statistics &s) {
  std::ostringstream out;
  out << "{\"program\": \"fdtd\", \"pes\": " << pe_count << ", \"size\": " << n
      << ", \"steps\": " << settings.step_count << ", \"snapshots\": " << settings.snapshot_count()
      << ", \"is_cuda\": " << s.is_cuda << ", \"total_seconds\": " << times.total()
      << ", \"run_seconds\": " << cost.run.total << ", \"lost_seconds\": " << cost.run.lost;
  if (cost.round_count > 0)
    out << ", \"compare\": {\"rounds\": " << cost.round_count
        << ", \"without_seconds\": " << cost.without << ", \"with_seconds\": " << cost.with << "}";
  out << ", \"phases\": [";
  const char *separator = "";
  for (const time_table::row &row : times.rows()) {
    out << separator << "{\"what\": \"" << row.what << "\", \"seconds\": " << row.seconds
        << ", \"bytes\": " << u64(row.bytes) << "}";
    separator = ", ";
  }
  out << "], \"gfile\": {\"requests\": " << s.requests << ", \"device_hits\": " << s.device_hits
      << ", \"host_hits\": " << s.host_hits << ", \"misses\": " << s.misses
      << ", \"store_reads\": " << s.store_reads << ", \"store_read_size\": " << s.store_read_size
      << ", \"store_writes\": " << s.store_writes
      << ", \"store_write_size\": " << s.store_write_size
      << ", \"write_errors\": " << s.write_errors << "}}\n";
  return out.str();
}

TND_KERNEL void flip_a_bit(grid g) {
  u32 *const cell = reinterpret_cast<u32 *>(&g.e[2][g.at(g.n / 3, g.n / 2, g.n - 2)]);
  *cell ^= 1;
}

void check_last_snapshot(const grid &g, const options &wanted, snapshots &taken) {
  if (wanted.plant == "field" && g.n - 2 >= g.first && g.n - 2 < g.last)
    tanada::simt::launch({1}, {1}, flip_a_bit, g);
  u64 const differences = taken.count_differences();
  if (differences != 0)
    throw std::runtime_error(taken.last_url() + " differs from the field in " +
                             std::to_string(differences) + " cells");
}

/// The URL of the map of materials. The first PE creates the map if no URL is given. Empty: only
/// the map was requested.
std::string prepare_material(const options &wanted,
                             const job &mine,
                             const std::string &prefix,
                             time_table &times) {
  if (!wanted.material.empty())
    return wanted.material;
  std::string const url = examples::join_url(prefix, "material.map");
  double const size = header_size + double(wanted.size) * wanted.size * wanted.size;
  bool const is_private = prefix.compare(0, 4, "mem:") == 0;  // each process has its own
  examples::kernel_outcome outcome;
  if (mine.me() == 0 || is_private)
    times.measure(
        "make material", size, [&] { make_material(make_scene(wanted.size), url, outcome); });
  shmem_barrier_all();
  if (!wanted.make_material)
    return url;
  if (mine.me() == 0)
    std::printf("%s: %.1f MB\n", url.c_str(), size / 1e6);
  return "";
}

void tell_run(const options &wanted,
              const run_settings &settings,
              const job &mine,
              const std::string &prefix) {
  std::string const slabs = mine.count() > 1 ? " in slabs of " + std::to_string(mine.count()) +
                                                   " PEs, edges by the " + wanted.exchange
                                             : "";
  std::printf("%u^3 cells%s, %u steps, %s walls; a snapshot of %.1f MB every %u steps to %s\n",
              wanted.size,
              slabs.c_str(),
              settings.step_count,
              wanted.boundary.c_str(),
              double(npy_size(wanted.size)) / 1e6,
              settings.steps_a_snapshot,
              (wanted.snapshots.empty() ? prefix : wanted.snapshots).c_str());
  std::fflush(stdout);
}

int simulate(const options &wanted, const job &mine) {
  u32 const n = wanted.size;
  run_settings const settings{wanted.steps != 0 ? wanted.steps : default_steps(n),
                              wanted.steps_a_snapshot};
  bool const is_first = mine.me() == 0;
  std::string const prefix = store_prefix(wanted);
  time_table times;
  examples::gfile_session session(mine.device());
  std::string const map = prepare_material(wanted, mine, prefix, times);
  if (map.empty()) {
    session.finish();
    return 0;
  }
  std::filesystem::create_directories(wanted.output);
  boundary const kind = boundary_of(wanted.boundary);
  grid_storage storage(n, {kind, kind, kind}, stable_time_step());
  examples::kernel_outcome outcome;
  auto material = times.measure("read material", header_size + double(n) * n * n, [&] {
    return load_material(storage, map, outcome);
  });
  std::unique_ptr<snapshots> const taken = open_snapshots(storage, wanted, prefix);
  if (is_first)
    tell_run(wanted, settings, mine, prefix);
  snapshot_cost const cost = run_all(storage, wanted, settings, *taken, times);
  times.measure(
      "check", double(npy_size(n)), [&] { check_last_snapshot(storage.view(), wanted, *taken); });
  std::string const picture = wanted.output + "/field.png";
  shmem_barrier_all();  // no kernels are running
  times.measure("picture", 0, [&] {
    if (is_first)
      write_picture(picture, middle_slice(storage, std::move(material)));
  });
  tnd_gfile_statistics const statistics = sum_statistics(session.statistics());
  times.measure("finish", 0, [&] { session.finish(); });
  if (!is_first)
    return 0;
  std::string const text = times.to_text() + statistics_text(statistics) + cost.to_text();
  write_text(wanted.output + "/timings.txt", text);
  write_text(wanted.output + "/timings.json",
             to_json(n, mine.count(), settings, cost, times, statistics));
  std::printf("%sthe last snapshot equals the field in every cell; the field: %s\n",
              text.c_str(),
              picture.c_str());
  return 0;
}

// Other PEs would wait for a failed PE; this ends them.
int run(const options &wanted) {
  job const mine(device_heap_size(wanted.size, wanted.buffers),
                 exchange_of(wanted.exchange) != exchange::host);
  try {
    if (mine.me() == 0)
      examples::print_device();
    return wanted.validate.empty() ? simulate(wanted, mine) : validate(wanted, mine);
  } catch (const std::exception &error) {
    std::string const who = mine.count() > 1 ? "PE " + std::to_string(mine.me()) + ": " : "";
    std::fprintf(stderr, "fdtd: %s%s\n", who.c_str(), error.what());
    shmem_global_exit(1);
  }
  return 1;
}

}  // namespace
}  // namespace fdtd

int main(int count, char **words) {
  fdtd::options wanted;
  int exit_code = 0;
  if (!fdtd::parse_options(count, words, wanted, exit_code))
    return exit_code;
  try {
    return fdtd::run(wanted);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "fdtd: %s\n", error.what());
    return 1;
  }
}
