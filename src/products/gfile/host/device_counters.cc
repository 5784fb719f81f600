#include "products/gfile/host/device_counters.hpp"

#include "core/base/mutex.hpp"

namespace tanada::gfile {

namespace {
constexpr u64 counters::*all_counters[] = {
    &counters::device_hits,      &counters::host_hits, &counters::mapped_copies,
    &counters::direct_copies,    &counters::misses,    &counters::uncached_transfers,
    &counters::device_evictions, &counters::read_size, &counters::write_size};
}

void device_counters::add(counters &to, const counters &what) {
  for (auto each : all_counters)
    to.*each += what.*each;
}

counters device_counters::sum(const std::vector<counters> &stripes, uint32_t file) {
  counters all{};
  for (uint32_t i = 0; i < counter_stripes; i++)
    add(all, stripes[size_t(file) * counter_stripes + i]);
  return all;
}

status device_counters::copy(std::vector<counters> &stripes, uint32_t used_count) const {
  stripes.resize(size_t(used_count) * counter_stripes);
  return gpu_.copy_to_host(stripes.data(), counts_, stripes.size() * sizeof(counters));
}

status device_counters::add_to(tnd_gfile_statistics &sums, uint32_t used_count) const {
  std::vector<counters> stripes;
  TND_TRY(copy(stripes, used_count));
  counters all{};
  for (counters const &stripe : stripes)
    add(all, stripe);
  latencies waits[latency_stripes];
  TND_TRY(gpu_.copy_to_host(waits, waits_, waits_size()));
  sums.device_hits = all.device_hits;
  sums.host_hits = all.host_hits;
  sums.mapped_copies = all.mapped_copies;
  sums.direct_copies = all.direct_copies;
  sums.misses = all.misses;
  sums.uncached_transfers = all.uncached_transfers;
  sums.device_evictions = all.device_evictions;
  sums.read_size = all.read_size;
  sums.write_size = all.write_size;
  static_assert(TND_GFILE_LATENCY_BUCKETS == latency_buckets);
  for (latencies const &stripe : waits)
    for (uint32_t i = 0; i < latency_buckets; i++)
      sums.rpc_latency[i] += stripe.buckets[i];
  return status::ok;
}

status device_counters::read(std::vector<counters> &files, uint32_t used_count) const {
  std::vector<counters> stripes;
  lock_guard const lock{
      mutex_};  // over the copy too: counts older than their base would be negative
  TND_TRY(copy(stripes, used_count));
  files.assign(used_count, counters{});
  for (uint32_t file = 0; file < used_count; file++) {
    files[file] = sum(stripes, file);
    for (auto each : all_counters)
      files[file].*each -= base_[file].*each;
  }
  return status::ok;
}

// Now and then all are copied, which serves each file that was closed before: a copy for each would
// hold up whoever opens files.
void device_counters::rebase(uint32_t file, uint64_t closed, uint64_t now) {
  bool const is_fresh = !seen_.empty() && closed <= seen_use_;
  if (!is_fresh && (seen_.empty() || now - seen_use_ > file_count_ / 4)) {
    if (copy(seen_, file_count_) != status::ok)
      return;
    seen_use_ = now;
  } else if (!is_fresh) {
    size_t const first = size_t(file) * counter_stripes;
    if (gpu_.copy_to_host(&seen_[first], counts_ + first, counter_stripes * sizeof(counters)) !=
        status::ok)
      return;
  }
  lock_guard const lock{mutex_};
  base_[file] = sum(seen_, file);
}

}  // namespace tanada::gfile
