// bench/gfile: reads by kernels against what programs do without gfile and against the bare machine.
//
//   bench_gfile[_cuda] [--json FILE] [--file PATH] [--size MIB] [--only miss|random|sequential|strings] [--chunk KIB] [--blocks N]
//
//                       [--strings "OPTIONS OF string_match"]
//
// The rows of string matching run the example string_match that lies beside this program, with gfile and without.
//
// Settings of the instance can be overridden by TND_GFILE_...; the bars are for a GPU.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "../../examples/common/device_memory.hpp"
#include "../common/report.hpp"
#include "rivals.hpp"

namespace bench {
namespace {

using tanada::gfile_ref;
using tanada::status;
using tanada::u32;
using tanada::u64;
using tanada::u8;
using tanada::simt::dim3;
using examples::on_gpu;

struct text {
  char bytes[256] = {};
  text(const std::string &from) { from.copy(bytes, sizeof bytes - 1); }
};

void check(tnd_status code, const char *what) {
  if (code != TND_OK) throw std::runtime_error(std::string(what) + ": " + tnd_status_name(code) + ": " + tnd_last_message());
}

class instance {
 public:
  explicit instance(const tnd_gfile_config &config) { check(tnd_gfile_create(&config, &gfile_), "tnd_gfile_create"); }
  ~instance() { (void)!tnd_gfile_destroy(gfile_); }
  gfile_ref ref() const {
    tnd_gfile_ref const plain = tnd_gfile_get_ref(gfile_);
    return {plain.state, plain.timeout_ns};
  }
  void wait() {
    check(tnd_gfile_wait(gfile_, TND_NO_DEADLINE), "wait");
    tnd_gfile_fault fault = TND_GFILE_FAULT_INIT;
    check(tnd_gfile_get_fault(gfile_, &fault), "fault");
    check(fault.status, "a call in the kernel");
  }
  tnd_gfile_statistics statistics() const {
    tnd_gfile_statistics all = TND_GFILE_STATISTICS_INIT;
    check(tnd_gfile_get_statistics(gfile_, &all), "statistics");
    return all;
  }

 private:
  tnd_gfile *gfile_ = nullptr;
};

tnd_gfile_config config_of(u32 page_size, u64 device_tier, u64 host_tier, u32 threads) {
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = examples::gfile_device;
  config.page_size = page_size;
  config.device_tier_size = device_tier;
  config.host_tier_size = host_tier;
  config.service_threads = threads;
  return config;
}

// Blocks take chunks of the file in turn.
TND_KERNEL void read_whole(gfile_ref files, text url, u8 *target, u64 size, u64 chunk_size) {
  tanada::this_block const block{};
  int fd = -1;
  if (gopen(block, files, url.bytes, O_RDONLY, &fd) != status::ok) return;
  for (u64 at = tanada::simt::block_rank() * chunk_size; at < size; at += tanada::simt::grid_size_x() * chunk_size)
    (void)gread(block, files, fd, target + at, at, chunk_size < size - at ? chunk_size : size - at);
  (void)gclose(block, files, fd);
}

TND_KERNEL void fill(gfile_ref files, text url, u8 *source, u64 size, u64 chunk_size) {
  tanada::this_block const block{};
  int fd = -1;
  if (gopen(block, files, url.bytes, O_WRONLY | O_CREAT, &fd) != status::ok) return;
  for (u64 at = tanada::simt::block_rank() * chunk_size; at < size; at += tanada::simt::grid_size_x() * chunk_size)
    (void)gwrite(block, files, fd, source, at, chunk_size < size - at ? chunk_size : size - at);
  (void)gclose(block, files, fd);
}

TND_KERNEL void read_random(gfile_ref files, text url, u64 page_count, u32 reads, u64 seed, u8 *target) {
  tanada::this_warp const warp{};
  u64 const me = tanada::simt::global_thread_rank() / tanada::simt::warp_size;
  u64 state = me * 0x9E3779B97F4A7C15ull + seed;
  int fd = -1;
  if (gopen(warp, files, url.bytes, O_RDONLY, &fd) != status::ok) return;
  for (u32 i = 0; i < reads; i++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    (void)gread(warp, files, fd, target + me * 4096, (state >> 24) % page_count * 4096, 4096);
  }
  (void)gclose(warp, files, fd);
}

// One warp; every page once, in an order without runs.
TND_KERNEL void miss_each(gfile_ref files, text url, u64 page_count, u64 stride, u8 *target, u64 *took_ns) {
  tanada::this_warp const warp{};
  int fd = -1;
  if (gopen(warp, files, url.bytes, O_RDONLY, &fd) != status::ok) return;
  u64 const start = tanada::simt::now_ns();
  for (u64 i = 0; i < page_count; i++) (void)gread(warp, files, fd, target, i * stride % page_count * 4096, 4096);
  if (warp.rank() == 0) *took_ns = tanada::simt::now_ns() - start;
  (void)gclose(warp, files, fd);
}

// ---- the rows

void make_file(const std::string &path, u64 size) {
  int const fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) throw std::runtime_error("cannot create " + path);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; t++)
    threads.emplace_back([=] {
      std::vector<u64> piece(1u << 19);
      for (u64 at = t * (4ull << 20); at < size; at += 8 * (4ull << 20)) {
        for (u64 i = 0; i < piece.size(); i++) piece[i] = (at + i * 8) * 0x9E3779B97F4A7C15ull;
        if (pwrite(fd, piece.data(), std::min<u64>(4u << 20, size - at), off_t(at)) < 0) std::perror("pwrite");
      }
    });
  for (auto &thread : threads) thread.join();
  close(fd);
}

void verify(const u8 *target, u64 size) {
  u64 const step = std::max<u64>(size / 64, 8) / 8 * 8;
  for (u64 at = 0; at + 8 <= size; at += step) {
    u64 word = 0;
    examples::copy_to_host(&word, target + at, 8);
    if (word != at * 0x9E3779B97F4A7C15ull) throw std::runtime_error("wrong bytes at " + std::to_string(at));
  }
}

struct reading {
  u64 size, chunk_size;  // bytes
  u32 blocks;
};

void sequential(report &to, const std::string &path, const reading &how) {
  u64 const size = how.size;
  examples::device_array<u8> target(size);
  double const gib = double(size) / 1e9;
  (void)read_by_hand(path, target.data(), size, 4);  // warm: the file is in the page cache
  std::vector<double> naive, hand8, hand16, mine;
  naive.push_back(read_naively(path, target.data(), size));
  for (int i = 0; i < 3; i++) hand8.push_back(read_by_hand(path, target.data(), size, on_gpu ? 8 : 2));
  for (int i = 0; i < 3; i++) hand16.push_back(read_by_hand(path, target.data(), size, on_gpu ? 16 : 4));
  double const hand = std::min(median(hand8), median(hand16));
  u32 const page = u32(how.chunk_size), threads = on_gpu ? 512 : 32;
  for (int i = 0; i < 4; i++) {
    target.clear();
    // A host tier that stays in the processors' cache: twice what the blocks ask for at a time.
    instance on{config_of(page, size / 16, how.blocks * how.chunk_size * 2, 0)};  // cold tiers each time
    double const start = now_s();
    tanada::simt::launch(dim3(how.blocks), dim3(threads), read_whole, on.ref(), text{path}, target.data(), size, how.chunk_size);
    on.wait();
    if (i > 0) mine.push_back(now_s() - start);
    verify(target.data(), size);
    if (i == 3) {
      tnd_gfile_statistics const seen = on.statistics();
      std::fprintf(stderr, "    host hits %llu, misses %llu, store reads %llu, requests %llu\n", (unsigned long long)seen.host_hits,
                   (unsigned long long)seen.misses, (unsigned long long)seen.store_reads, (unsigned long long)seen.requests);
    }
  }
  std::string const what = "sequential read of a cached file of " + std::to_string(size >> 20) + " MiB by a kernel";
  to.add({what, gib / median(mine), "GB/s", "pread and pageable copy, one thread", gib / median(naive),
          on_gpu ? std::optional<double>{8} : std::nullopt, better::higher});
  to.add({what, gib / median(mine), "GB/s", "pread by threads with pinned double buffers", gib / hand, std::nullopt, better::higher});
}

void random_hits(report &to) {
  u64 const size = on_gpu ? 2ull << 30 : 64u << 20;
  u32 const blocks = on_gpu ? 132 * 4 : 4, threads = on_gpu ? 512 : 32, reads = on_gpu ? 200 : 500;
  std::string const url = "mem://bench/random";
  instance on{config_of(4096, size / 64, size + size / 8, 0)};
  examples::device_array<u8> target(std::max<u64>(u64(blocks) * threads / 32 * 4096, 1u << 20));
  tanada::simt::launch(dim3(blocks), dim3(threads), fill, on.ref(), text{url}, target.data(), size, u64(1u << 20));
  on.wait();
  std::vector<double> rates;
  for (int i = 0; i < 6; i++) {
    u64 const hits = on.statistics().host_hits;
    double const start = now_s();
    tanada::simt::launch(dim3(blocks), dim3(threads), read_random, on.ref(), text{url}, size / 4096, reads, u64(i), target.data());
    on.wait();
    double const took = now_s() - start;
    if (i > 0) rates.push_back(double(on.statistics().host_hits - hits) / took);
  }
  tnd_gfile_statistics const seen = on.statistics();
  std::fprintf(stderr, "    device hits %llu, host hits %llu, misses %llu\n", (unsigned long long)seen.device_hits,
               (unsigned long long)seen.host_hits, (unsigned long long)seen.misses);
  double const bare = random_pinned_reads(size, blocks, reads);
  to.add({"random 4 KiB gread by warps from the host tier, no CPU in the path", median(rates) / 1e6, "M/s", "", std::nullopt,
          on_gpu ? std::optional<double>{5} : std::nullopt, better::higher});
  to.add({"random 4 KiB gread by warps from the host tier", median(rates) / 1e6, "M/s", "bare kernel, random pinned pages", bare / 1e6,
          std::nullopt, better::higher});
}

void miss_latency(report &to) {
  u64 const pages = on_gpu ? 8192 : 2048;
  std::string const url = "mem://bench/miss";
  {
    instance filler{config_of(65536, 1u << 20, 1u << 20, 1)};
    examples::device_array<u8> source(1u << 20);
    tanada::simt::launch(dim3(2), dim3(32), fill, filler.ref(), text{url}, source.data(), pages * 4096, u64(65536));
    filler.wait();
  }
  std::vector<double> misses, host_hits, device_hits;
  examples::device_array<u8> target(4096);
  examples::device_array<u64> took(1);
  auto const pass = [&](instance &on, u64 first_pages) {
    tanada::simt::launch(dim3(1), dim3(32), miss_each, on.ref(), text{url}, first_pages, u64(1789), target.data(), took.data());
    on.wait();
    return double(took.to_host()[0]) / double(first_pages) * 1e-9;
  };
  for (int i = 0; i < 5; i++) {
    instance on{config_of(4096, 1u << 20, 64u << 20, 1)};
    misses.push_back(pass(on, pages));
    host_hits.push_back(pass(on, pages));
    (void)pass(on, 64);
    device_hits.push_back(pass(on, 64));
    if (i > 0) continue;
    tnd_gfile_statistics const seen = on.statistics();
    std::fprintf(stderr, "    of %llu pages: misses %llu, then host hits %llu, device hits %llu\n", (unsigned long long)pages,
                 (unsigned long long)seen.misses, (unsigned long long)seen.host_hits, (unsigned long long)seen.device_hits);
  }
  double const bare = round_trip(on_gpu ? 2000 : 200);
  to.add({"a warp's gread of a 4 KiB page in the device tier", median(device_hits) * 1e6, "us", "", std::nullopt, std::nullopt,
          better::lower});
  to.add({"a warp's gread of a 4 KiB page in the host tier", median(host_hits) * 1e6, "us", "", std::nullopt, std::nullopt,
          better::lower});
  to.add({"a warp's gread of a 4 KiB page that misses, mem://", median(misses) * 1e6, "us", "bare round trip kernel, host, kernel",
          bare * 1e6, on_gpu ? std::optional<double>{3} : std::nullopt, better::lower});
}

// Median seconds of three runs of the example; nothing if it does not run.
std::optional<double> time_strings(const std::string &command) {
  std::vector<double> times;
  for (int i = 0; i < 4; i++) {
    FILE *const pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return std::nullopt;
    std::string output;
    for (char piece[512]; std::fgets(piece, sizeof piece, pipe) != nullptr;) output += piece;
    size_t const at = output.find("\"total\": ");
    if (pclose(pipe) != 0 || at == std::string::npos) return std::nullopt;
    if (i > 0) times.push_back(std::strtod(output.c_str() + at + 9, nullptr));
  }
  return median(times);
}

void strings(report &to, const std::string &program, const std::string &options) {
  std::string const folder = (std::filesystem::temp_directory_path() / ("tanada-strings-" + std::to_string(getpid()))).string();
  std::string const command = "'" + program + "' --json --output '" + folder + "' " + options;
  std::optional<double> const with = time_strings(command), without = time_strings(command + " --no-api");
  std::filesystem::remove_all(folder);
  if (!with) {
    std::fprintf(stderr, "  string matching left out: %s does not run\n", program.c_str());
    return;
  }
  to.add({"string matching, a thread a word, files read and written in kernels", *with * 1e3, "ms", "the same kernels, read(2) and copies",
          without ? std::optional<double>{*without * 1e3} : std::nullopt, std::nullopt, better::lower});
}

int run(int argc, char **argv) {
  u64 size = on_gpu ? 8ull << 30 : 256ull << 20;
  u64 chunk_size = on_gpu ? 1u << 19 : 1u << 18;
  u32 blocks = on_gpu ? 132 : 4;
  std::string path, only, string_options;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string const option = argv[i];
    if (option == "--file") path = argv[i + 1];
    else if (option == "--size") size = std::strtoull(argv[i + 1], nullptr, 10) << 20;
    else if (option == "--only") only = argv[i + 1];
    else if (option == "--chunk") chunk_size = std::strtoull(argv[i + 1], nullptr, 10) << 10;
    else if (option == "--strings") string_options = argv[i + 1];
    else if (option == "--blocks") blocks = u32(std::strtoul(argv[i + 1], nullptr, 10));
    else if (option != "--json") throw std::runtime_error("see the head of bench/gfile/gfile.cu for the options");
  }
  bool const temporary = path.empty();
  if (temporary) path = (std::filesystem::temp_directory_path() / ("tanada-bench-" + std::to_string(getpid()))).string();
  auto const wanted = [&](const char *part) { return only.empty() || only == part; };
  report to{on_gpu ? "gfile" : "gfile_host", device_name()};
  if (wanted("miss")) miss_latency(to);
  if (wanted("random")) random_hits(to);
  if (wanted("strings")) {
    std::filesystem::path const self = std::filesystem::read_symlink("/proc/self/exe");
    strings(to, self.parent_path() / (on_gpu ? "string_match_cuda" : "string_match"), string_options);
  }
  if (wanted("sequential")) {
    if (!std::filesystem::exists(path) || std::filesystem::file_size(path) != size) make_file(path, size);
    sequential(to, path, {size, chunk_size, blocks});
    if (temporary) std::filesystem::remove(path);
  }
  return to.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  try {
    return bench::run(argc, argv);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "bench_gfile: %s\n", error.what());
    return 1;
  }
}
