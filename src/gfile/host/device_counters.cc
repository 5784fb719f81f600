#include "gfile/host/device_counters.hpp"

namespace tanada::gfile {

namespace {
constexpr u64 counters::*all_counters[] = {
    &counters::device_hits,        &counters::host_hits,        &counters::mapped_copies, &counters::direct_copies, &counters::misses,
    &counters::uncached_transfers, &counters::device_evictions, &counters::read_size,     &counters::write_size};
}

void device_counters::add(counters &to, const counters &what) {
  for (auto each : all_counters) to.*each += what.*each;
}

status device_counters::add_to(tnd_gfile_statistics &sums) const {
  std::vector<counters> stripes(size_t(file_count_) * counter_stripes);
  TND_TRY(gpu_.copy_to_host(stripes.data(), counts_, counts_size()));
  counters all{};
  for (counters const &stripe : stripes) add(all, stripe);
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
    for (uint32_t i = 0; i < latency_buckets; i++) sums.rpc_latency[i] += stripe.buckets[i];
  return status::ok;
}

status device_counters::read(std::vector<counters> &files) const {
  std::vector<counters> stripes(size_t(file_count_) * counter_stripes);
  std::lock_guard const lock{mutex_};  // over the copy too: counts older than their base would be negative
  TND_TRY(gpu_.copy_to_host(stripes.data(), counts_, counts_size()));
  files.assign(file_count_, counters{});
  for (uint32_t file = 0; file < file_count_; file++) {
    for (uint32_t i = 0; i < counter_stripes; i++) add(files[file], stripes[file * counter_stripes + i]);
    for (auto each : all_counters) files[file].*each -= base_[file].*each;
  }
  return status::ok;
}

void device_counters::rebase(uint32_t file) {
  counters stripes[counter_stripes];
  if (gpu_.copy_to_host(stripes, counts_ + size_t(file) * counter_stripes, sizeof stripes) != status::ok) return;
  std::lock_guard const lock{mutex_};
  base_[file] = {};
  for (counters const &stripe : stripes) add(base_[file], stripe);
}

}  // namespace tanada::gfile
