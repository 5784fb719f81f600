// products/gfile/host/device_counters.hpp: the kernels' counters in device memory, which the host
// reads while kernels run.
#pragma once

#include <vector>

#include "core/base/mutex.hpp"
#include "seams/gpu/gpu.hpp"
#include <tanada/device/detail/gfile/state.hpp>

#include <tanada/gfile.h>

namespace tanada::gfile {

// Counts belong to the number of a file's record. A record that is reassigned to another URL starts
// from zero, while the sums of the instance continue. Thread safety: set_arrays() before all
// others; the others from any thread.
class device_counters {
 public:
  device_counters(seams::gpu &gpu, uint32_t file_count)
      : gpu_{gpu}, base_(file_count), file_count_{file_count} {}

  // In all calls: files from `used_count` on have no counts.

  // Sizes of the two arrays in device memory, zeroed.
  uint64_t counts_size() const {
    return uint64_t(file_count_) * counter_stripes * sizeof(counters);
  }
  static constexpr uint64_t waits_size() {
    return latency_stripes * sizeof(latencies);
  }
  void set_arrays(counters *counts, latencies *waits) {
    counts_ = counts;
    waits_ = waits;
  }

  // The sums of all files and the histogram of waits.
  status add_to(tnd_gfile_statistics &sums, uint32_t used_count) const;

  // The counts of each file since its last rebase().
  status read(std::vector<counters> &files, uint32_t used_count) const;

  // The record `file` now belongs to another URL. Kernels have counted nothing for it since the use
  // `closed_use` of the core's count, which is now `current_use`.
  void rebase(uint32_t file, uint64_t closed_use, uint64_t current_use);

 private:
  static void add(counters &total, const counters &addend);
  static counters sum(const std::vector<counters> &stripes, uint32_t file);
  status copy(std::vector<counters> &stripes, uint32_t used_count) const;

  seams::gpu &gpu_;
  mutable mutex mutex_;
  std::vector<counters> base_ TND_GUARDED_BY(mutex_);
  std::vector<counters>
      snapshot_;  // all stripes, when the core's count of uses was snapshot_use_; only for rebase()
  uint64_t snapshot_use_ = 0;
  uint32_t file_count_;
  counters *counts_ = nullptr;  // device memory
  latencies *waits_ = nullptr;  // device memory
};

}  // namespace tanada::gfile
