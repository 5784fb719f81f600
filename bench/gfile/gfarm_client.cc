// bench/gfile/gfarm_client.cc: whole files of Gfarm by gfs_pio_pread and gfs_pio_pwrite.
#include <cstddef>  // before gfarm.h, which expects size_t

#include <gfarm/gfarm.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "gfarm_client.hpp"

// Exported by libgfarm.so.1 but declared in none of its headers.
extern "C" gfarm_error_t gfs_pio_internal_set_view_section(GFS_File, char *);

namespace bench {
namespace {

constexpr size_t write_size_max = 1u << 20;

void check(gfarm_error_t error, const char *call, const std::string &url) {
  if (error != GFARM_ERR_NO_ERROR)
    throw std::runtime_error(std::string(call) + " of " + url + ": " + gfarm_error_string(error));
}

}  // namespace

void gfarm_connect() {
  int count = 1;
  char name[] = "bench_gfarm";
  char *arguments[] = {name, nullptr};
  char **list = arguments;
  check(gfarm_initialize(&count, &list), "gfarm_initialize", "GFARM_CONFIG_FILE");
  struct gfs_stat root{};
  check(gfs_stat("gfarm:///", &root), "gfs_stat", "gfarm:///");
  gfs_stat_free(&root);
}

uint64_t gfarm_read(const std::string &url, size_t piece_size, const piece_taker &take) {
  GFS_File file = nullptr;
  check(gfs_pio_open(url.c_str(), GFARM_FILE_RDONLY | GFARM_FILE_UNBUFFERED, &file),
        "gfs_pio_open",
        url);
  std::vector<uint8_t> piece(piece_size);
  uint64_t size = 0;
  for (int count = 1; count > 0; size += uint64_t(count)) {
    check(gfs_pio_pread(file, piece.data(), int(piece_size), gfarm_off_t(size), &count),
          "gfs_pio_pread",
          url);
    if (count > 0)
      take(piece.data(), size_t(count));
  }
  check(gfs_pio_close(file), "gfs_pio_close", url);
  return size;
}

void gfarm_write(const std::string &url, const std::string &bytes) {
  gfarm_create(url, {}, bytes.size(), [&](uint64_t offset, uint8_t *target, size_t size) {
    bytes.copy(reinterpret_cast<char *>(target), size, offset);
  });
}

void gfarm_create(const std::string &url,
                  const std::string &host,
                  uint64_t size,
                  const piece_giver &give) {
  GFS_File file = nullptr;
  int const flags = GFARM_FILE_WRONLY | GFARM_FILE_TRUNC | GFARM_FILE_UNBUFFERED;
  check(gfs_pio_create(url.c_str(), flags, 0644, &file), "gfs_pio_create", url);
  if (!host.empty())
    check(gfs_pio_internal_set_view_section(file, const_cast<char *>(host.c_str())),
          "choosing a server",
          url);
  std::vector<uint8_t> piece(write_size_max);
  for (uint64_t done = 0; done < size;) {
    size_t const part = size_t(std::min<uint64_t>(size - done, write_size_max));
    give(done, piece.data(), part);
    int count = 0;
    check(gfs_pio_pwrite(file, piece.data(), int(part), gfarm_off_t(done), &count),
          "gfs_pio_pwrite",
          url);
    done += uint64_t(count);
  }
  check(gfs_pio_close(file), "gfs_pio_close", url);
}

}  // namespace bench
