// products/gfile/host/device_counters.cc: sums and rebases the kernels' counters.
#include "products/gfile/host/device_counters.hpp"

#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"

namespace tanada::gfile {

namespace {
constexpr u64 counters::*all_counters[] = {&counters::device_hits,
                                           &counters::host_hits,
                                           &counters::mapped_copies,
                                           &counters::direct_copies,
                                           &counters::misses,
                                           &counters::uncached_transfers,
                                           &counters::device_evictions,
                                           &counters::read_size,
                                           &counters::write_size};
// Only padding is left after them.
static_assert(sizeof(counters) - sizeof all_counters < alignof(counters));
}

void device_counters::add(counters &total, const counters &addend) {
  for (auto counter : all_counters)
    total.*counter += addend.*counter;
}

counters device_counters::sum(const std::vector<counters> &stripes, uint32_t file) {
  TND_ASSERT((size_t(file) + 1) * counter_stripes <= stripes.size());
  counters total{};
  for (uint32_t i = 0; i < counter_stripes; i++)
    add(total, stripes[size_t(file) * counter_stripes + i]);
  return total;
}

status device_counters::copy(std::vector<counters> &stripes, uint32_t used_count) const {
  TND_ASSERT(counts_ != nullptr && used_count <= file_count_);
  stripes.resize(size_t(used_count) * counter_stripes);
  return gpu_.copy_to_host(stripes.data(), counts_, stripes.size() * sizeof(counters));
}

status device_counters::add_to(tnd_gfile_statistics &sums, uint32_t used_count) const {
  std::vector<counters> stripes;
  TND_TRY(copy(stripes, used_count));
  counters total{};
  for (counters const &stripe : stripes)
    add(total, stripe);
  latencies waits[latency_stripes];
  TND_TRY(gpu_.copy_to_host(waits, waits_, waits_size()));
  sums.device_hits = total.device_hits;
  sums.host_hits = total.host_hits;
  sums.mapped_copies = total.mapped_copies;
  sums.direct_copies = total.direct_copies;
  sums.misses = total.misses;
  sums.uncached_transfers = total.uncached_transfers;
  sums.device_evictions = total.device_evictions;
  sums.read_size = total.read_size;
  sums.write_size = total.write_size;
  static_assert(TND_GFILE_LATENCY_BUCKETS == latency_buckets);
  static_assert(sizeof waits == waits_size());
  for (latencies const &stripe : waits)
    for (uint32_t i = 0; i < latency_buckets; i++)
      sums.rpc_latency[i] += stripe.buckets[i];
  return status::ok;
}

status device_counters::read(std::vector<counters> &files, uint32_t used_count) const {
  std::vector<counters> stripes;
  lock_guard const lock{
      mutex_};  // also during the copy: counts older than their base would be negative
  TND_TRY(copy(stripes, used_count));
  files.assign(used_count, counters{});
  for (uint32_t file = 0; file < used_count; file++) {
    files[file] = sum(stripes, file);
    for (auto counter : all_counters)
      files[file].*counter -= base_[file].*counter;
  }
  return status::ok;
}

// Occasionally copy the counters of all files, which serves each file that was closed before. A
// copy for each file would delay opens.
void device_counters::rebase(uint32_t file, uint64_t closed_use, uint64_t current_use) {
  TND_ASSERT(file < file_count_ && closed_use <= current_use);
  bool const is_fresh = !snapshot_.empty() && closed_use <= snapshot_use_;
  if (!is_fresh && (snapshot_.empty() || current_use - snapshot_use_ > file_count_ / 4)) {
    if (copy(snapshot_, file_count_) != status::ok)
      return;
    snapshot_use_ = current_use;
  } else if (!is_fresh) {
    size_t const first = size_t(file) * counter_stripes;
    if (gpu_.copy_to_host(&snapshot_[first], counts_ + first, counter_stripes * sizeof(counters)) !=
        status::ok)
      return;
  }
  lock_guard const lock{mutex_};
  base_[file] = sum(snapshot_, file);
}

}  // namespace tanada::gfile
