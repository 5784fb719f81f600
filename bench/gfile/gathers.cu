// bench_gathers: rows of a table in a file, by their numbers, as programs gather features of a
// graph or rows of an embedding. gread_rows is compared with kernels that read the same rows from
// pinned memory (UVA), and with threads of the host that gather rows to pinned buffers and copy
// these, which is what index_select of a tensor in pinned memory does.
//
// --file PATH: the table; it is created if it does not exist, and then removed
// --size MiB: of the table, 512 without a GPU and 32,768 with one
// --tier MiB: of the device tier, a quarter of the table by default
// --page KiB: 4 by default
// --only cold|uniform|zipf
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include <unistd.h>

#include "gather_rivals.hpp"
#include "support.cuh"

namespace bench {
namespace {

constexpr u64 rows_a_call = 256;

// Blocks take parts of the list in turn.
TND_KERNEL TND_LAUNCH_BOUNDS(512) void gather_by_calls(
    gfile_ref files, text url, const u64 *rows, u64 count, u64 row_size, u8 *target) {
  tanada::this_block const block{};
  int fd = -1;
  if (gopen(block, files, url.bytes, O_RDONLY, &fd) != status::ok)
    return;
  u8 *const mine = target + tanada::simt::block_rank() * rows_a_call * row_size;
  for (u64 begin = tanada::simt::block_rank() * rows_a_call; begin < count;
       begin += tanada::simt::grid_size_x() * rows_a_call) {
    u64 const rest = count - begin;
    (void)gread_rows(
        block, files, fd, mine, rows + begin, rest < rows_a_call ? rest : rows_a_call, row_size);
  }
  (void)gclose(block, files, fd);
}

struct table {
  std::string path;
  u64 size;  // bytes
};

u32 block_count() {
  return on_gpu ? 132 * 2 : 4;
}

double seconds_to_gather(
    instance &on, const table &from, const std::vector<u64> &list, u64 row_size, u8 *target) {
  examples::device_array<u64> const rows(list);
  double const start = now_s();
  tanada::simt::launch(dim3(block_count()),
                       dim3(threads_a_block()),
                       gather_by_calls,
                       on.ref(),
                       text{from.path},
                       rows.data(),
                       u64(list.size()),
                       row_size,
                       target);
  on.wait();
  return now_s() - start;
}

std::vector<u64> uniform_rows(u64 count, u64 limit, u64 seed) {
  std::mt19937_64 random{seed};
  std::vector<u64> rows(count);
  for (u64 &row : rows)
    row = random() % limit;
  return rows;
}

// Zipf's law with the exponent 1, by inversion of its continuous distribution: rank r with a
// probability in proportion to 1 / r. Ranks are spread over the table.
std::vector<u64> zipf_rows(u64 count, u64 limit, u64 seed) {
  std::mt19937_64 random{seed};
  std::uniform_real_distribution<double> part{0, 1};
  std::vector<u64> rows(count);
  for (u64 &row : rows) {
    u64 const rank = u64(std::exp(part(random) * std::log(double(limit))));
    row = rank * 0x9E3779B97F4A7C15ull % limit;
  }
  return rows;
}

struct gathering {
  std::string name;  // of the distribution
  u64 row_size;
  bool is_zipf;
  bool is_cold;  // the first gather of the instance counts
  double bar_of_uva;
};

std::vector<u64> rows_of(const gathering &what, u64 count, u64 limit, u64 seed) {
  return what.is_zipf ? zipf_rows(count, limit, seed) : uniform_rows(count, limit, seed);
}

void add_row(report &to,
             const gathering &what,
             double rate,
             const char *rival,
             double other,
             std::optional<double> bar) {
  to.add({"gather of rows of " + std::to_string(what.row_size) + " B, " + what.name,
          rate / 1e9,
          "GB/s",
          rival,
          other / 1e9,
          on_gpu ? bar : std::nullopt});
}

// A file in memory is mapped in the background after it is read again. Gather other rows until
// then, so that the rounds that count do not depend on when that is.
void warm_up(instance &on, const table &from, const gathering &what, u64 count, u8 *target) {
  constexpr u32 rounds_max = 60;
  u64 const limit = from.size / what.row_size;
  std::string reason;
  u32 i = 0;
  for (; i < rounds_max && on.path(reason) != TND_GFILE_PATH_MAPPED; i++)
    (void)seconds_to_gather(
        on, from, rows_of(what, count, limit, u64(100 + i)), what.row_size, target);
  std::fprintf(stderr,
               "    %u gathers to warm up; the table is %s %s\n",
               i,
               i < rounds_max ? "mapped" : "not mapped:",
               reason.c_str());
}

void measure(report &to, const table &from, const tnd_gfile_config &config, const gathering &what) {
  u64 const limit = from.size / what.row_size;
  u64 const count = std::min<u64>(limit, on_gpu ? 8u << 20 : 1u << 17);
  examples::device_array<u8> target(u64(block_count()) * rows_a_call * what.row_size);
  instance on{config};
  double const bytes = double(count * what.row_size);
  std::vector<double> rates;
  tnd_gfile_statistics before{};
  // Warm: other rows of the same distribution were gathered before.
  if (!what.is_cold && on_gpu)
    warm_up(on, from, what, count, target.data());
  int const rounds = what.is_cold ? 1 : 4;
  for (int i = 0; i < rounds; i++) {
    before = on.statistics();
    double const took = seconds_to_gather(
        on, from, rows_of(what, count, limit, u64(i + 1)), what.row_size, target.data());
    if (i == rounds - 1 || i > 1)
      rates.push_back(bytes / took);
  }
  u64 const hits = on.statistics().device_hits - before.device_hits;
  to.add({"rows of these that the device tier had",
          double(hits) / double(count) * 100,
          "%",
          "",
          std::nullopt,
          std::nullopt});
  std::vector<u64> const rows = rows_of(what, count, limit, 99);
  gather_source const source{from.path, from.size};
  gathered const all{rows, what.row_size};
  add_row(to,
          what,
          median(rates),
          "kernels that read pinned memory (UVA)",
          bytes / gather_by_uva(source, all),
          what.bar_of_uva);
  add_row(to,
          what,
          median(rates),
          "threads that gather to pinned memory, and copies",
          bytes / gather_by_threads(source, all, on_gpu ? 16 : 2),
          what.is_cold ? std::optional{1.0} : std::nullopt);
}

void create(const table &to) {
  std::ofstream file{to.path, std::ios::binary};
  std::vector<u64> words(1u << 17);
  for (u64 offset = 0; offset < to.size; offset += words.size() * 8) {
    for (u64 i = 0; i < words.size(); i++)
      words[i] = word_at(offset + i * 8);
    file.write(reinterpret_cast<const char *>(words.data()), std::streamsize(words.size() * 8));
  }
  if (!file.flush())
    throw std::runtime_error("cannot write " + to.path);
}

int run(int argc, char **argv) {
  table from{"", on_gpu ? 32ull << 30 : 512ull << 20};
  u64 tier = 0, page_size = 4096;
  std::string only;
  read_options(
      argc, argv, "bench/gfile/gathers.cu", [&](const std::string &option, const char *value) {
        if (option == "--file")
          from.path = value;
        else if (option == "--size")
          from.size = std::strtoull(value, nullptr, 10) << 20;
        else if (option == "--tier")
          tier = std::strtoull(value, nullptr, 10) << 20;
        else if (option == "--page")
          page_size = std::strtoull(value, nullptr, 10) << 10;
        else if (option == "--only")
          only = value;
        else
          return false;
        return true;
      });
  if (from.path.empty())
    from.path = "/dev/shm/tanada-gathers-" + std::to_string(getpid());
  bool const is_temporary = !std::filesystem::exists(from.path);
  if (is_temporary)
    create(from);
  // Default settings, but for the sizes: the table is larger than the device tier.
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = examples::gfile_device;
  config.page_size = u32(page_size);
  config.device_tier_size = tier != 0 ? tier : from.size / 4;
  report to{on_gpu ? "gathers" : "gathers_host", device_name()};
  std::pair<const char *, gathering> const all[] = {
      {"cold", {"uniform, cold", 4096, false, true, 1}},
      {"uniform", {"uniform", 1024, false, false, 1}},
      {"zipf", {"by Zipf's law", 4096, true, false, 16}}};
  for (auto const &[name, what] : all)
    if (only.empty() || only == name)
      measure(to, from, config, what);
  if (is_temporary)
    std::filesystem::remove(from.path);
  return to.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  return bench::guarded("bench_gathers", [=] { return bench::run(argc, argv); });
}
