#include <cstddef>  // before gfarm.h, which expects size_t

#include <gfarm/gfarm.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "../common/report.hpp"
#include "dfs_rivals.hpp"

namespace bench {
namespace {

void check(gfarm_error_t error, const char *call) {
  if (error != GFARM_ERR_NO_ERROR)
    throw std::runtime_error(std::string(call) + ": " + gfarm_error_string(error));
}

void initialize() {
  int count = 1;
  char name[] = "bench_dfs";
  char *arguments[] = {name, nullptr};
  char **list = arguments;
  check(gfarm_initialize(&count, &list), "gfarm_initialize");
}

uint64_t size_of(const std::string &url) {
  initialize();
  struct gfs_stat found{};
  check(::gfs_stat(url.c_str(), &found), "gfs_stat");
  uint64_t const size = uint64_t(found.st_size);
  gfs_stat_free(&found);
  return size;
}

gfarm_error_t read_piece(GFS_File file, uint8_t *target, uint64_t at, uint64_t end) {
  while (at < end) {
    int got = 0;
    gfarm_error_t const error =
        gfs_pio_pread(file, target + at, int(end - at), gfarm_off_t(at), &got);
    if (error != GFARM_ERR_NO_ERROR)
      return error;
    if (got == 0)
      return GFARM_ERR_UNEXPECTED_EOF;
    at += uint64_t(got);
  }
  return GFARM_ERR_NO_ERROR;
}

dfs_time read(const std::string &url, uint8_t *target, uint64_t size, const dfs_loop &loop) {
  initialize();
  std::vector<GFS_File> files(loop.threads);
  for (GFS_File &file : files) {
    check(gfs_pio_open(url.c_str(), GFARM_FILE_RDONLY | GFARM_FILE_UNBUFFERED, &file),
          "gfs_pio_open");
    check(read_piece(file, target, 0, std::min<uint64_t>(size, 4096)),
          "the first gfs_pio_pread");  // it connects
  }
  std::atomic<uint64_t> next{0};
  std::atomic<gfarm_error_t> failure{GFARM_ERR_NO_ERROR};
  dfs_clock const clock;
  std::vector<std::thread> threads;
  for (GFS_File const file : files)
    threads.emplace_back([&, file] {
      for (uint64_t at = next.fetch_add(loop.piece_size); at < size;
           at = next.fetch_add(loop.piece_size))
        if (auto const error = read_piece(file, target, at, std::min(at + loop.piece_size, size));
            error != GFARM_ERR_NO_ERROR)
          failure = error;
    });
  for (auto &thread : threads)
    thread.join();
  dfs_time const took = clock.stop();
  check(failure, "gfs_pio_pread");
  for (GFS_File const file : files)
    check(gfs_pio_close(file), "gfs_pio_close");
  return took;
}

}  // namespace

dfs_rival gfarm_rival() {
  return {"gfarm", false, size_of, read};
}

}  // namespace bench
