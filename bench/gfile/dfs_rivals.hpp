// bench/gfile/dfs_rivals.hpp: distributed file systems read by their own client libraries, without gfile.
#pragma once

#include <cstdint>
#include <string>

namespace bench {

// One way to loop over a file: `threads` threads with a handle each, which take pieces in turn; or as many asynchronous
// reads in flight on one handle.
struct dfs_loop {
  unsigned threads = 1;
  bool asynchronous = false;
  uint64_t piece_size = 1u << 20;  // bytes a call
};

// A client library. A throw says what went wrong.
struct dfs_rival {
  const char *scheme;
  bool has_asynchronous;
  uint64_t (*size_of)(const std::string &url);  // bytes
  // Seconds to read the whole file to `target`, handles opened before the clock starts. It runs in a process of its own.
  double (*read)(const std::string &url, uint8_t *target, uint64_t size, const dfs_loop &loop);
};

// gfs_pio_pread on unbuffered handles.
dfs_rival gfarm_rival();
// glfs_pread, and glfs_pread_async.
dfs_rival gluster_rival();

}  // namespace bench
