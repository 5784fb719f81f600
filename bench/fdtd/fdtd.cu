// bench/fdtd: the cost of snapshots for a simulation: the same steps without any, and with one
// every tenth step to a pool and to files, concurrent with the steps and while they wait.
//
// bench_fdtd --pool pool://host:port/namespace/prefix --folder FOLDER [--json FILE] [--size N]
//   [--steps N] [--rounds N] [--every N] [--buffers N] [--file-system NAME]
//
// tools/bench_fdtd.sh starts a pool for it.
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../examples/fdtd/simulation.hpp"
#include "../../examples/fdtd/snapshot_writer.hpp"
#include "../common/report.hpp"

namespace bench {
namespace {

using fdtd::u32;

constexpr double bar = 1.02;

struct settings {
  std::string pool, folder, file_system = "files";
  u32 size = examples::on_gpu ? 256 : 64, steps = 2000, rounds = 3, every = 10, buffers = 2;
};

settings parse(int count, char **words) {
  settings wanted;
  struct {
    const char *name;
    u32 *number;
    std::string *text;
  } const known[] = {{"--pool", nullptr, &wanted.pool},
                     {"--folder", nullptr, &wanted.folder},
                     {"--file-system", nullptr, &wanted.file_system},
                     {"--size", &wanted.size, nullptr},
                     {"--steps", &wanted.steps, nullptr},
                     {"--rounds", &wanted.rounds, nullptr},
                     {"--every", &wanted.every, nullptr},
                     {"--buffers", &wanted.buffers, nullptr}};
  read_options(count, words, "bench/fdtd/fdtd.cu", [&](const std::string &word, const char *value) {
    for (auto const &option : known) {
      if (word != option.name)
        continue;
      if (option.text != nullptr)
        *option.text = value;
      if (option.number != nullptr)
        *option.number = u32(std::strtoul(value, nullptr, 10));
      if (option.number != nullptr && *option.number == 0)
        throw std::runtime_error(word + ": want a number");
      return true;
    }
    return false;
  });
  if (wanted.pool.empty() || wanted.folder.empty())
    throw std::runtime_error("want --pool URL and --folder FOLDER");
  return wanted;
}

struct way {
  std::string what;
  std::unique_ptr<fdtd::snapshot_writer> snapshots;  // empty: without snapshots
};

std::string device_name() {
#if TND_SIMT_CUDA
  cudaDeviceProp about{};
  examples::cuda_check(cudaGetDeviceProperties(&about, 0), "cudaGetDeviceProperties");
  return about.name;
#else
  return "host executor";
#endif
}

void add_rows(report &told,
              const settings &wanted,
              const std::vector<way> &ways,
              const std::vector<std::vector<fdtd::run_times>> &runs) {
  double const without = fdtd::median_total(runs[0]);
  for (std::size_t i = 1; i < ways.size(); i++) {
    row time;
    time.what = std::to_string(wanted.steps) + " steps of " + std::to_string(wanted.size) +
                "^3, a snapshot every " + std::to_string(wanted.every) + ": " + ways[i].what;
    time.value = fdtd::median_total(runs[i]);
    time.unit = "s";
    time.rival = "no snapshots";
    time.rival_value = without;
    time.direction = better::lower;
    if (i == 1)
      time.bar = bar;
    told.add(time);
  }
  for (std::size_t i = 1; i < ways.size(); i++) {
    double lost = 0, total = 0;
    for (const fdtd::run_times &run : runs[i]) {
      lost += run.lost;
      total += run.total;
    }
    row stood, put;
    stood.what = "share of the time in which steps stood still: " + ways[i].what;
    stood.value = 100 * lost / total;
    stood.unit = "%";
    stood.direction = better::lower;
    told.add(stood);
    put.what = "one snapshot's way: " + ways[i].what;
    put.value = double(fdtd::npy_size(wanted.size)) / ways[i].snapshots->put_seconds() / 1e9;
    put.unit = "GB/s";
    told.add(put);
  }
}

int run(int count, char **words) {
  settings const wanted = parse(count, words);
  fdtd::job const alone(fdtd::device_heap_size(wanted.size, 2 * wanted.buffers + 2), false);
  examples::gfile_session session;
  fdtd::boundary const walls = fdtd::boundary::absorbing;
  fdtd::grid_storage storage(wanted.size, {walls, walls, walls}, fdtd::stable_time_step());
  fdtd::grid const &g = storage.view();
  fdtd::stepper steps(storage);
  auto const shape = examples::shape_for_rows(g.row_count());
  tanada::simt::launch(shape.grid, shape.block, fdtd::fill_with_vacuum, g);
  auto const open = [&](const std::string &url, bool synchronous) {
    return std::make_unique<fdtd::snapshot_writer>(
        storage, fdtd::writer_settings{url, synchronous ? 1 : wanted.buffers, synchronous});
  };
  std::vector<way> ways;
  ways.push_back({"none", nullptr});
  ways.push_back({"to a pool, beside the steps", open(wanted.pool, false)});
  ways.push_back({"to a pool, the steps wait", open(wanted.pool, true)});
  ways.push_back({"to " + wanted.file_system + ", beside the steps", open(wanted.folder, false)});
  ways.push_back({"to " + wanted.file_system + ", the steps wait", open(wanted.folder, true)});
  std::vector<fdtd::snapshots *> taken;
  for (const way &each : ways)
    taken.push_back(each.snapshots.get());
  // Kernels are loaded before the measurement. The first run, which touches the pool's memory for
  // the first time, has a row of its own.
  fdtd::run_rounds(steps, {2 * wanted.every, wanted.every}, {nullptr}, 1);
  auto const first = fdtd::run_rounds(steps, {wanted.steps, wanted.every}, taken, 1);
  auto const runs = fdtd::run_rounds(steps, {wanted.steps, wanted.every}, taken, wanted.rounds);
  for (std::size_t i = 1; i < ways.size(); i++)
    if (ways[i].snapshots->count_differences() != 0)
      throw std::runtime_error(ways[i].what + ": the last snapshot is wrong");
  report told("fdtd", device_name());
  add_rows(told, wanted, ways, runs);
  row met;
  met.what = "the first run " + ways[1].what + ", which maps the pool's memory";
  met.value = first[1][0].total;
  met.unit = "s";
  met.rival = "no snapshots";
  met.rival_value = fdtd::median_total(runs[0]);
  met.direction = better::lower;
  told.add(met);
  ways.clear();
  session.finish();
  return told.finish(count, words);
}

}  // namespace
}  // namespace bench

int main(int count, char **words) {
  return bench::guarded("bench_fdtd", [=] { return bench::run(count, words); });
}
