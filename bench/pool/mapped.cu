// bench_pool_mapped: a kernel's reads of an object of the pool on the same node, by gfile on the
// pool's own pages, compared with a minimal kernel that reads as many bytes of pinned host memory,
// alternating. The bytes read are verified.
#include <tanada/pool.h>

#include <unistd.h>

#include <cstdio>
#include <vector>

#include "../gfile/support.cuh"
#include "pool_daemon.hpp"

namespace bench {
namespace {

std::vector<u8> contents(u64 size) {
  std::vector<u8> bytes(size);
  for (u64 at = 0; at + 8 <= size; at += 8) {
    u64 const word = word_at(at);
    std::memcpy(bytes.data() + at, &word, 8);
  }
  return bytes;
}

void put(const std::string &space, const std::string &name, const std::vector<u8> &bytes) {
  tnd_pool *pool = nullptr;
  check(tnd_pool_connect(space.c_str(), nullptr, &pool), "tnd_pool_connect");
  tnd_status const code = tnd_pool_put(pool, name.c_str(), bytes.data(), bytes.size(), 0, nullptr);
  tnd_pool_disconnect(pool);
  check(code, "tnd_pool_put");
}

// Blocks take chunks in turn, as the readers of the object do.
TND_KERNEL void copy_pages(u8 *target, const u8 *pages, u64 size, u64 chunk_size) {
  tanada::this_block const block{};
  for (u64 at = tanada::simt::block_rank() * chunk_size; at < size;
       at += tanada::simt::grid_size_x() * chunk_size)
    tanada::simt::copy_from_host(
        block, target + at, pages + at, chunk_size < size - at ? chunk_size : size - at);
}

double seconds_to_copy(u8 *target, const void *pages, const reading &how) {
  double const start = now_s();
  tanada::simt::launch(dim3(how.blocks),
                       dim3(threads_a_block()),
                       copy_pages,
                       target,
                       static_cast<const u8 *>(pages),
                       u64(how.size),
                       u64(how.chunk_size));
  examples::device_wait();
  return now_s() - start;
}

double wait_until_mapped(instance &on, const std::string &url, u8 *target, const reading &how) {
  double const start = now_s();
  std::string reason;
  while (now_s() - start < 60) {
    (void)seconds_to_read(on, url, target, how.size, {how.chunk_size, how.chunk_size, 1});
    if (on.path(reason) == TND_GFILE_PATH_MAPPED)
      return now_s() - start;
    usleep(1000);
  }
  throw std::runtime_error(url + " is not mapped: " + reason);
}

void rows(report &to, const pool_daemon &daemon, const reading &how, unsigned rounds) {
  std::vector<u8> const meant = contents(how.size);
  std::string const space = daemon.url("mapped"), name = "object_" + std::to_string(how.size),
                    url = space + "/" + name;
  put(space, name, meant);
  examples::device_array<u8> target(meant);
  examples::host_copy pinned(how.size);
  const void *const pages = pinned.of(target.data());
  tnd_gfile_config config =
      config_of(u32(how.chunk_size), how.size / 16, how.blocks * how.chunk_size * 2);
  config.mapping = TND_GFILE_MAPPING_AUTO;
  instance on{config};
  examples::device_array<u8> read(how.size);
  double const mapping = wait_until_mapped(on, url, read.data(), how);
  tnd_gfile_statistics const before = on.statistics();
  std::vector<double> bare_s, pool_s, ratios;
  for (unsigned i = 0; i < rounds; i++) {
    bare_s.push_back(seconds_to_copy(read.data(), pages, how));
    read.clear();
    pool_s.push_back(seconds_to_read(on, url, read.data(), how.size, how));
    if (read.to_host() != meant)
      throw std::runtime_error("the kernel read other bytes than the pool holds");
    ratios.push_back(bare_s.back() / pool_s.back());
  }
  tnd_gfile_statistics const after = on.statistics();
  if (after.misses != before.misses || after.host_hits != before.host_hits ||
      after.mapped_copies == before.mapped_copies)
    throw std::runtime_error("pages were not read where the pool has them");
  double const gb = double(how.size) / 1e9;
  std::string const size = std::to_string(how.size >> 20) + " MiB";
  to.add({"read of a pool object of " + size + " on the same node, mapped, by a kernel",
          gb / median(pool_s),
          "GB/s",
          "bare kernel that reads pinned memory",
          gb / median(bare_s),
          std::nullopt,
          better::higher,
          median(ratios)});
  to.add({"until the object of " + size + " is mapped, in the background",
          mapping,
          "s",
          "",
          std::nullopt,
          std::nullopt,
          better::lower});
}

int run(int argc, char **argv) {
  report out{"pool_mapped", on_gpu ? "a GPU" : "host executor"};
  pool_daemon const daemon{on_gpu ? uint64_t{5} << 30 : uint64_t{256} << 20};
  u64 const chunk_size = on_gpu ? 1u << 19 : 1u << 18;
  u32 const blocks = on_gpu ? 132 : 4;
  // An object of many segments, and one of a single segment.
  rows(out, daemon, {on_gpu ? u64{2} << 30 : u64{96} << 20, chunk_size, blocks}, 7);
  rows(out, daemon, {u64{32} << 20, chunk_size, blocks}, 21);
  return out.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  try {
    return bench::run(argc, argv);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "bench_pool_mapped: %s\n", error.what());
    return 1;
  }
}
