#include "stat_report.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "text.hpp"

namespace tanada::command {
namespace {

using nlohmann::json;

struct counter_name {
  const char *name;
  uint64_t tnd_gfile_statistics::*of;
};
constexpr counter_name counter_names[] = {
    {"device_hits", &tnd_gfile_statistics::device_hits},
    {"host_hits", &tnd_gfile_statistics::host_hits},
    {"mapped_copies", &tnd_gfile_statistics::mapped_copies},
    {"direct_copies", &tnd_gfile_statistics::direct_copies},
    {"misses", &tnd_gfile_statistics::misses},
    {"uncached_transfers", &tnd_gfile_statistics::uncached_transfers},
    {"store_reads", &tnd_gfile_statistics::store_reads},
    {"store_read_size", &tnd_gfile_statistics::store_read_size},
    {"store_writes", &tnd_gfile_statistics::store_writes},
    {"store_write_size", &tnd_gfile_statistics::store_write_size},
    {"requests", &tnd_gfile_statistics::requests},
    {"evictions", &tnd_gfile_statistics::evictions},
    {"device_evictions", &tnd_gfile_statistics::device_evictions},
    {"write_errors", &tnd_gfile_statistics::write_errors},
    {"read_size", &tnd_gfile_statistics::read_size},
    {"write_size", &tnd_gfile_statistics::write_size},
};
static_assert(std::size(counter_names) == 16);

struct period {
  tnd_gfile_statistics counts;
  double seconds;
};

period period_of(const gfile::stat_page &now, const gfile::stat_page *before) {
  uint64_t const since = before != nullptr ? before->header.now_ns : now.header.created_ns;
  double const seconds = now.header.now_ns > since ? double(now.header.now_ns - since) / 1e9 : 0;
  return {before != nullptr ? difference(now.header.statistics, before->header.statistics)
                            : now.header.statistics,
          seconds};
}

double per_second(uint64_t count, const period &of) {
  return of.seconds > 0 ? double(count) / of.seconds : 0;
}

[[gnu::format(printf, 2, 3)]] void add(std::string &to, const char *format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  to += text;
}

}  // namespace

double hit_ratio(const tnd_gfile_statistics &of) {
  uint64_t const found = of.device_hits + of.host_hits + of.mapped_copies;
  return found + of.misses == 0 ? 0 : double(found) / double(found + of.misses);
}

uint64_t latency_ns(const tnd_gfile_statistics &of, double share) {
  uint64_t all = 0, seen = 0;
  for (uint64_t count : of.rpc_latency)
    all += count;
  if (all == 0)
    return 0;
  for (unsigned i = 0; i < TND_GFILE_LATENCY_BUCKETS; i++) {
    seen += of.rpc_latency[i];
    if (double(seen) >= share * double(all))
      return uint64_t{2} << i;
  }
  return uint64_t{1} << TND_GFILE_LATENCY_BUCKETS;
}

tnd_gfile_statistics difference(const tnd_gfile_statistics &after,
                                const tnd_gfile_statistics &before) {
  tnd_gfile_statistics grown = after;
  // A page of another instance under the same name would be smaller: nothing grew then.
  auto const less = [](uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
  };
  for (counter_name const &each : counter_names)
    grown.*each.of = less(after.*each.of, before.*each.of);
  for (int i = 0; i < TND_GFILE_LATENCY_BUCKETS; i++)
    grown.rpc_latency[i] = less(after.rpc_latency[i], before.rpc_latency[i]);
  return grown;
}

const char *path_name(uint32_t path) {
  static constexpr const char *names[] = {"staged", "mapped", "direct", "direct-compatible"};
  return path < std::size(names) ? names[path] : "unknown";
}

json stat_json(const gfile::stat_page &now, const gfile::stat_page *before) {
  gfile::stat_page_header const &head = now.header;
  period const recent = period_of(now, before);
  json counters, rates, latency;
  for (counter_name const &each : counter_names) {
    counters[each.name] = head.statistics.*each.of;
    rates[each.name] = per_second(recent.counts.*each.of, recent);
  }
  for (auto [name, share] :
       {std::pair{"p50_ns", 0.5}, {"p90_ns", 0.9}, {"p99_ns", 0.99}, {"max_ns", 1.0}})
    latency[name] = latency_ns(recent.counts, share);
  json files = json::array();
  for (tnd_gfile_file const &each : now.files)
    files.push_back({{"url", each.url},
                     {"path", path_name(each.path)},
                     {"reason", each.reason},
                     {"size", each.size},
                     {"opens", each.opens},
                     {"write_opens", each.write_opens},
                     {"device_hits", each.device_hits},
                     {"host_hits", each.host_hits},
                     {"mapped_copies", each.mapped_copies},
                     {"direct_copies", each.direct_copies},
                     {"misses", each.misses},
                     {"read_size", each.read_size},
                     {"write_size", each.write_size}});
  return {{"pid", head.process},
          {"program", head.program},
          {"device", head.statistics.is_cuda != 0 ? "cuda" : "host"},
          {"page_size", head.page_size},
          {"device_tier_size", head.device_tier_size},
          {"host_tier_size", head.host_tier_size},
          {"service_threads", head.service_threads},
          {"uptime_s", double(head.now_ns - std::min(head.now_ns, head.created_ns)) / 1e9},
          {"period_s", recent.seconds},
          {"counters", counters},
          {"per_second", rates},
          {"hit_ratio", hit_ratio(recent.counts)},
          {"miss_latency", latency},
          {"files", files},
          {"file_total", head.file_total}};
}

std::string stat_text(const gfile::stat_page &now, const gfile::stat_page *before) {
  gfile::stat_page_header const &head = now.header;
  period const recent = period_of(now, before);
  tnd_gfile_statistics const &all = head.statistics, &counts = recent.counts;
  std::string text;
  add(text, "%s (%u) on %s, %.1f s; pages of %s, tiers of %s and %s, %u service threads\n",
      printable(head.program).c_str(), head.process,
      all.is_cuda != 0 ? "a GPU" : "the host executor", recent.seconds,
      size_text(head.page_size).c_str(), size_text(double(head.device_tier_size)).c_str(),
      size_text(double(head.host_tier_size)).c_str(), head.service_threads);
  auto const line = [&](const char *name, uint64_t total, uint64_t grown) {
    add(text, "  %-18s %14llu  %12.0f/s\n", name, (unsigned long long)total,
        per_second(grown, recent));
  };
  for (counter_name const &each : counter_names)
    if (!std::string_view(each.name).ends_with("_size"))
      line(each.name, all.*each.of, counts.*each.of);
  for (counter_name const &each : counter_names)
    if (std::string_view(each.name).ends_with("_size"))
      add(text, "  %-18s %14s  %12s/s\n", each.name, size_text(double(all.*each.of)).c_str(),
          size_text(per_second(counts.*each.of, recent)).c_str());
  add(text, "  found without the CPU %.1f %%", 100 * hit_ratio(counts));
  add(text, "; misses answered within: half %.0f us, 90 %% %.0f us, 99 %% %.0f us\n",
      double(latency_ns(counts, 0.5)) / 1e3, double(latency_ns(counts, 0.9)) / 1e3,
      double(latency_ns(counts, 0.99)) / 1e3);
  for (tnd_gfile_file const &each : now.files) {
    add(text, "  %s\n", printable(each.url).c_str());
    add(text,
        "    %s%s%s; %s, open %u, to write %u; read %s, written %s; pages: device %llu, host %llu, "
        "mapped %llu, "
        "direct %llu, missed %llu\n",
        path_name(each.path), each.reason[0] != 0 ? ": " : "", printable(each.reason).c_str(),
        size_text(double(each.size)).c_str(), each.opens, each.write_opens,
        size_text(double(each.read_size)).c_str(), size_text(double(each.write_size)).c_str(),
        (unsigned long long)each.device_hits, (unsigned long long)each.host_hits,
        (unsigned long long)each.mapped_copies, (unsigned long long)each.direct_copies,
        (unsigned long long)each.misses);
  }
  if (head.file_total > now.files.size())
    add(text, "  and %zu more files\n", head.file_total - now.files.size());
  return text;
}

}  // namespace tanada::command
