// bench/gfile/support.cuh: shared parts of the rows: an instance, files to read, and kernels that
// read and write whole files.
#pragma once

#include <tanada/device/gfile.cuh>
#include <tanada/gfile.h>

#include <fcntl.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "../../examples/common/device_memory.hpp"
#include "../common/check.hpp"
#include "../common/report.hpp"
#include "rivals.hpp"
#include "rows.hpp"
#include "text.hpp"

namespace bench {

using examples::on_gpu;
using tanada::gfile_ref;
using tanada::status;
using tanada::u32;
using tanada::u64;
using tanada::u8;
using tanada::simt::dim3;

class instance {
 public:
  explicit instance(const tnd_gfile_config &config) {
    check(tnd_gfile_create(&config, &gfile_), "tnd_gfile_create");
  }
  ~instance() {
    (void)!tnd_gfile_destroy(gfile_);
  }
  instance(const instance &) = delete;
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
  tnd_gfile *get() const {
    return gfile_;
  }
  tnd_gfile_statistics statistics() const {
    tnd_gfile_statistics all = TND_GFILE_STATISTICS_INIT;
    check(tnd_gfile_get_statistics(gfile_, &all), "statistics");
    return all;
  }
  // The tnd_gfile_path of the first file, and the reason for it.
  u32 path(std::string &reason) const {
    tnd_gfile_file file{};
    uint32_t count = 0;
    check(tnd_gfile_get_files(gfile_, &file, 1, &count), "files");
    reason = file.reason;
    return file.path;
  }

 private:
  tnd_gfile *gfile_ = nullptr;
};

inline tnd_gfile_config config_of(u32 page_size, u64 device_tier, u64 host_tier, u32 threads = 0) {
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = examples::gfile_device;
  config.page_size = page_size;
  config.device_tier_size = device_tier;
  config.host_tier_size = host_tier;
  config.service_threads = threads;
  config.mapping = TND_GFILE_MAPPING_OFF;
  return config;
}

inline u32 threads_a_block() {
  return on_gpu ? 512 : 32;
}

// Launches a kernel whose blocks take chunks of the file in turn. Chunk `at` goes to target + at %
// target_size, or comes from source + at % source_size.
void launch_read(
    instance &on, const std::string &url, u8 *target, u64 target_size, const reading &how);
void launch_write(
    instance &on, const std::string &url, const u8 *source, u64 source_size, const reading &how);

inline double seconds_to_read(
    instance &on, const std::string &url, u8 *target, u64 target_size, const reading &how) {
  double const start = now_s();
  launch_read(on, url, target, target_size, how);
  on.wait();
  return now_s() - start;
}

// The word of a test file at byte `at`.
inline u64 word_at(u64 at) {
  return at * 0x9E3779B97F4A7C15ull;
}

// Compares some words of a test file in device memory, and throws if they differ.
void check_words(const u8 *target, u64 size);

}  // namespace bench
