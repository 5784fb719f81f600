// Rows with 4 KiB in each call: hits in the host tier, and misses.
#include <algorithm>

#include "support.cuh"

namespace bench {
namespace {

TND_KERNEL TND_LAUNCH_BOUNDS(512) void read_random(
    gfile_ref files, text url, u64 page_count, u32 reads, u64 seed, u8 *target) {
  tanada::this_warp const warp{};
  u64 const me = tanada::simt::global_thread_rank() / tanada::simt::warp_size;
  u64 state = me * 0x9E3779B97F4A7C15ull + seed;
  int fd = -1;
  if (gopen(warp, files, url.bytes, O_RDONLY, &fd) != status::ok)
    return;
  for (u32 i = 0; i < reads; i++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    (void)gread(warp, files, fd, target + me * 4096, (state >> 24) % page_count * 4096, 4096);
  }
  (void)gclose(warp, files, fd);
}

// Warps share the pages of a file, each page once, in an order without runs.
TND_KERNEL TND_LAUNCH_BOUNDS(512, 1) void read_each(
    gfile_ref files, text url, u64 page_count, u64 stride, u8 *target, u64 *took_ns) {
  tanada::this_warp const warp{};
  u64 const me = tanada::simt::global_thread_rank() / tanada::simt::warp_size;
  u64 const warps = u64(tanada::simt::grid_size_x()) * tanada::simt::block_thread_count() /
                    tanada::simt::warp_size;
  int fd = -1;
  if (gopen(warp, files, url.bytes, O_RDONLY, &fd) != status::ok)
    return;
  u64 const start = tanada::simt::now_ns();
  for (u64 i = me; i < page_count; i += warps)
    (void)gread(warp, files, fd, target + me * 4096, i * stride % page_count * 4096, 4096);
  if (warp.rank() == 0 && me == 0)
    *took_ns = tanada::simt::now_ns() - start;
  (void)gclose(warp, files, fd);
}

constexpr u64 stride = 1789;  // odd, so coprime to every power of two

void fill_mem(const std::string &url, u64 size) {
  instance filler{config_of(65536, 1u << 20, 64u << 20)};
  examples::device_array<u8> source(1u << 20);
  launch_write(filler, url, source.data(), source.size(), {size, 65536, on_gpu ? 16u : 2u});
  filler.wait();
}

}  // namespace

void random_hits(report &to) {
  u64 const size = on_gpu ? 2ull << 30 : 64u << 20;
  u32 const blocks = on_gpu ? 132 * 4 : 4, reads = on_gpu ? 200 : 500;
  std::string const url = "mem://bench/random";
  fill_mem(url, size);
  instance on{config_of(4096, size / 64, size + size / 8)};
  examples::device_array<u8> target(u64(blocks) * threads_a_block() / 32 * 4096);
  std::vector<double> rates, requests;
  for (int i = 0; i < 7; i++) {
    tnd_gfile_statistics const before = on.statistics();
    double const start = now_s();
    tanada::simt::launch(dim3(blocks),
                         dim3(threads_a_block()),
                         read_random,
                         on.ref(),
                         text{url},
                         size / 4096,
                         reads,
                         u64(i),
                         target.data());
    on.wait();
    double const took = now_s() - start;
    tnd_gfile_statistics const after = on.statistics();
    if (i < 3)
      continue;  // nearly every page has been read by then
    rates.push_back(double(after.host_hits - before.host_hits) / took);
    requests.push_back(double(after.requests - before.requests) /
                       double(after.host_hits - before.host_hits));
  }
  std::fprintf(stderr, "    requests to the host a hit: %.5f\n", median(requests));
  double const bare = random_pinned_reads(size, blocks, reads);
  to.add({"random 4 KiB gread by warps from the host tier",
          median(rates) / 1e6,
          "M/s",
          "bare kernel, random pinned pages",
          bare / 1e6,
          on_gpu ? std::optional<double>{0.85} : std::nullopt,
          better::higher});
  to.add({"requests to service threads a read, meanwhile",
          median(requests),
          "",
          "",
          std::nullopt,
          std::nullopt,
          better::lower});
}

void miss_latency(report &to) {
  u64 const pages = on_gpu ? 8192 : 2048;
  std::string const url = "mem://bench/miss";
  fill_mem(url, pages * 4096);
  std::vector<double> misses, host_hits, device_hits;
  examples::device_array<u8> target(4096);
  examples::device_array<u64> took(1);
  auto const pass = [&](instance &on, u64 first_pages) {
    tanada::simt::launch(dim3(1),
                         dim3(32),
                         read_each,
                         on.ref(),
                         text{url},
                         first_pages,
                         stride,
                         target.data(),
                         took.data());
    on.wait();
    return double(took.to_host()[0]) / double(first_pages) * 1e-9;
  };
  for (int i = 0; i < 5; i++) {
    instance on{config_of(4096, 1u << 20, 64u << 20, 1)};
    misses.push_back(pass(on, pages));
    host_hits.push_back(pass(on, pages));
    (void)pass(on, 64);
    device_hits.push_back(pass(on, 64));
  }
  double const bare = round_trip(on_gpu ? 2000 : 200);
  to.add({"a warp's gread of a 4 KiB page in the device tier",
          median(device_hits) * 1e6,
          "us",
          "",
          std::nullopt,
          on_gpu ? std::optional<double>{1.5} : std::nullopt,
          better::lower});
  to.add({"a warp's gread of a 4 KiB page in the host tier",
          median(host_hits) * 1e6,
          "us",
          "",
          std::nullopt,
          on_gpu ? std::optional<double>{4} : std::nullopt,
          better::lower});
  to.add({"a warp's gread of a 4 KiB page that misses, mem://",
          median(misses) * 1e6,
          "us",
          "bare round trip kernel, host, kernel",
          bare * 1e6,
          on_gpu ? std::optional<double>{2} : std::nullopt,
          better::lower});
}

void miss_rate(report &to) {
  u32 const warps = on_gpu ? 1000 : 8, warps_a_block = on_gpu ? 8 : 1;
  u64 const pages = on_gpu ? 1u << 18 : 1u << 13;
  std::string const url = "mem://bench/misses";
  fill_mem(url, pages * 4096);
  std::vector<double> rates;
  for (int i = 0; i < 4; i++) {
    instance on{config_of(4096, 16u << 20, pages * 4096 + pages * 512)};
    examples::device_array<u8> target(u64(warps) * 4096);
    examples::device_array<u64> took(1);
    double const start = now_s();
    tanada::simt::launch(dim3(warps / warps_a_block),
                         dim3(32 * warps_a_block),
                         read_each,
                         on.ref(),
                         text{url},
                         pages,
                         stride,
                         target.data(),
                         took.data());
    on.wait();
    tnd_gfile_statistics const seen = on.statistics();
    if (i > 0)
      rates.push_back(double(seen.misses) / (now_s() - start));
  }
  to.add({std::to_string(warps) + " warps' random 4 KiB greads that miss, mem://",
          median(rates) / 1e6,
          "M/s",
          "",
          std::nullopt,
          on_gpu ? std::optional<double>{5.0} : std::nullopt,
          better::higher});
}

}  // namespace bench
