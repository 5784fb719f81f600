// bench/gfile/rows.hpp: the rows of bench_gfile, one function for each group.
#pragma once

#include <cstdint>
#include <string>

#include "../common/report.hpp"

namespace bench {

struct reading {
  uint64_t size, chunk_size;  // bytes: of the file, and of a call
  uint32_t blocks;
  uint32_t rounds = 1;    // how often the file is read
  bool is_dense = false;  // by a kernel of which two blocks fit on a multiprocessor
};

// Reading whole files: from the page cache of a disk, through a small device tier, from tmpfs
// without a copy, and from the device.
void sequential(report &to, const std::string &path, const reading &how);
void from_memory(report &to, const std::string &folder, const reading &how);
void from_device_tier(report &to, const reading &how);

// The paper's figure 6: seconds by file size, with and without the direct path, against no API.
void by_size(report &to, const std::string &folder, const reading &how);

// 4 KiB in each call.
void random_hits(report &to);
void miss_latency(report &to);
void miss_rate(report &to);

// 10,000 small files by warps, opened individually and with default settings, against threads of
// the host. `where` names the folder's location.
void opens(report &to, const std::string &folder, const std::string &where);

// Streams with default settings, against tuned ones and a careful program.
void stream_by_default(report &to, const std::string &path, const reading &how);
void by_default(report &to, const std::string &path, const std::string &memory, const reading &how);

// One file to `count` GPUs at once. work() is a process with a GPU of its own, for by_devices();
// returns the exit status.
void by_devices(report &to, const std::string &folder, const reading &how, uint32_t count);
int work(const std::string &path, const reading &how, const std::string &setting_name);

void writing(report &to, const std::string &folder, const reading &how);

// The example string_match beside this program, with gfile and without; `options` are passed to it.
void strings(report &to, const std::string &options);

}  // namespace bench
