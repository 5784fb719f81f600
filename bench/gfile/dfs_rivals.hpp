// bench/gfile/dfs_rivals.hpp: distributed file systems read by their own client libraries, without
// gfile.
#pragma once

#include <time.h>

#include <cstdint>
#include <string>

namespace bench {

// A method to loop over a file: `threads` threads with a handle each, which take pieces in turn; or
// as many asynchronous reads in flight on one handle.
struct dfs_loop {
  unsigned threads = 1;
  bool asynchronous = false;
  uint64_t piece_size = 1u << 20;  // bytes of each call
};

struct dfs_time {
  double wall_s = 0;
  double processor_s = 0;  // of this process, all threads; also valid on a machine with other load
};

class dfs_clock {
 public:
  dfs_time stop() const {
    return {now(CLOCK_MONOTONIC) - wall_s_, now(CLOCK_PROCESS_CPUTIME_ID) - processor_s_};
  }

 private:
  static double now(clockid_t which) {
    timespec at{};
    clock_gettime(which, &at);
    return double(at.tv_sec) + double(at.tv_nsec) * 1e-9;
  }
  double wall_s_ = now(CLOCK_MONOTONIC), processor_s_ = now(CLOCK_PROCESS_CPUTIME_ID);
};

// A client library. Exceptions contain the error.
struct dfs_rival {
  const char *scheme;
  bool has_asynchronous;
  uint64_t (*size_of)(const std::string &url);  // bytes
  // Reads the whole file to `target`; handles are opened before the clock starts. It runs in a
  // process of its own.
  dfs_time (*read)(const std::string &url, uint8_t *target, uint64_t size, const dfs_loop &loop);
};

// gfs_pio_pread on unbuffered handles.
dfs_rival gfarm_rival();
// glfs_pread, and glfs_pread_async.
dfs_rival gluster_rival();

}  // namespace bench
