// products/gfile/host/device_counters.hpp: what kernels count in device memory, as the host reads
// it while they run.
#pragma once

#include <vector>

#include "core/base/mutex.hpp"
#include "seams/gpu/gpu.hpp"
#include <tanada/device/detail/gfile/state.hpp>

#include <tanada/gfile.h>

namespace tanada::gfile {

// Counts belong to the number of a file's record; a record that goes to another URL starts anew,
// while the sums of the instance go on. Thread safety: place() before all others; these any thread.
class device_counters {
 public:
  device_counters(port::gpu &gpu, uint32_t file_count)
      : gpu_{gpu}, base_(file_count), file_count_{file_count} {}

  // Of the files from `used_count` on nothing is counted.

  // Sizes of the two arrays in device memory, zeroed.
  uint64_t counts_size() const {
    return uint64_t(file_count_) * counter_stripes * sizeof(counters);
  }
  static constexpr uint64_t waits_size() {
    return latency_stripes * sizeof(latencies);
  }
  void place(counters *counts, latencies *waits) {
    counts_ = counts;
    waits_ = waits;
  }

  // The sums of all files and the histogram of waits.
  status add_to(tnd_gfile_statistics &sums, uint32_t used_count) const;

  // One file's since its last rebase().
  status read(std::vector<counters> &files, uint32_t used_count) const;

  // The record `file` now stands for another URL. Kernels have counted nothing for it since the use
  // `closed` of the core's count, which is at `now`.
  void rebase(uint32_t file, uint64_t closed, uint64_t now);

 private:
  static void add(counters &to, const counters &what);
  static counters sum(const std::vector<counters> &stripes, uint32_t file);
  status copy(std::vector<counters> &stripes, uint32_t used_count) const;

  port::gpu &gpu_;
  mutable mutex mutex_;
  std::vector<counters> base_;  // guarded by mutex_
  std::vector<counters>
      seen_;  // all stripes, when the core's count of uses was seen_use_; rebase()'s own
  uint64_t seen_use_ = 0;
  uint32_t file_count_;
  counters *counts_ = nullptr;  // device memory
  latencies *waits_ = nullptr;  // device memory
};

}  // namespace tanada::gfile
