// cmd/tanada/stat_report.cc: ratios, rates and percentiles of a page, as JSON and text.
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
  uint64_t tnd_gfile_statistics::*member;
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

period period_of(const gfile::stat_page &current, const gfile::stat_page *previous) {
  uint64_t const since = previous != nullptr ? previous->header.now_ns : current.header.created_ns;
  double const seconds =
      current.header.now_ns > since ? double(current.header.now_ns - since) / 1e9 : 0;
  return {previous != nullptr ? difference(current.header.statistics, previous->header.statistics)
                              : current.header.statistics,
          seconds};
}

double per_second(uint64_t count, const period &interval) {
  return interval.seconds > 0 ? double(count) / interval.seconds : 0;
}

[[gnu::format(printf, 2, 3)]] void add(std::string &text, const char *format, ...) {
  char piece[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(piece, sizeof piece, format, arguments);
  va_end(arguments);
  text += piece;
}

}  // namespace

double hit_ratio(const tnd_gfile_statistics &counts) {
  uint64_t const hits = counts.device_hits + counts.host_hits + counts.mapped_copies;
  return hits + counts.misses == 0 ? 0 : double(hits) / double(hits + counts.misses);
}

uint64_t latency_ns(const tnd_gfile_statistics &counts, double share) {
  uint64_t total = 0, cumulative = 0;
  for (uint64_t count : counts.rpc_latency)
    total += count;
  if (total == 0)
    return 0;
  for (unsigned i = 0; i < TND_GFILE_LATENCY_BUCKETS; i++) {
    cumulative += counts.rpc_latency[i];
    if (double(cumulative) >= share * double(total))
      return uint64_t{2} << i;
  }
  return uint64_t{1} << TND_GFILE_LATENCY_BUCKETS;
}

tnd_gfile_statistics difference(const tnd_gfile_statistics &after,
                                const tnd_gfile_statistics &previous) {
  tnd_gfile_statistics grown = after;
  // A smaller counter means that another instance reused the name; report no growth then.
  auto const subtract = [](uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
  };
  for (counter_name const &counter : counter_names)
    grown.*counter.member = subtract(after.*counter.member, previous.*counter.member);
  for (int i = 0; i < TND_GFILE_LATENCY_BUCKETS; i++)
    grown.rpc_latency[i] = subtract(after.rpc_latency[i], previous.rpc_latency[i]);
  return grown;
}

const char *path_name(uint32_t path) {
  static constexpr const char *names[] = {"staged", "mapped", "direct", "direct-compatible"};
  return path < std::size(names) ? names[path] : "unknown";
}

json stat_json(const gfile::stat_page &current, const gfile::stat_page *previous) {
  gfile::stat_page_header const &head = current.header;
  period const recent = period_of(current, previous);
  json counters, rates, latency;
  for (counter_name const &counter : counter_names) {
    counters[counter.name] = head.statistics.*counter.member;
    rates[counter.name] = per_second(recent.counts.*counter.member, recent);
  }
  for (auto [name, share] :
       {std::pair{"p50_ns", 0.5}, {"p90_ns", 0.9}, {"p99_ns", 0.99}, {"max_ns", 1.0}})
    latency[name] = latency_ns(recent.counts, share);
  json files = json::array();
  for (tnd_gfile_file const &file : current.files)
    files.push_back({{"url", file.url},
                     {"path", path_name(file.path)},
                     {"reason", file.reason},
                     {"size", file.size},
                     {"opens", file.opens},
                     {"write_opens", file.write_opens},
                     {"device_hits", file.device_hits},
                     {"host_hits", file.host_hits},
                     {"mapped_copies", file.mapped_copies},
                     {"direct_copies", file.direct_copies},
                     {"misses", file.misses},
                     {"read_size", file.read_size},
                     {"write_size", file.write_size}});
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

std::string stat_text(const gfile::stat_page &current, const gfile::stat_page *previous) {
  gfile::stat_page_header const &head = current.header;
  period const recent = period_of(current, previous);
  tnd_gfile_statistics const &totals = head.statistics, &counts = recent.counts;
  std::string text;
  add(text,
      "%s (%u) on %s, %.1f s; pages of %s, tiers of %s and %s, %u service threads\n",
      printable(head.program).c_str(),
      head.process,
      totals.is_cuda != 0 ? "a GPU" : "the host executor",
      recent.seconds,
      size_text(head.page_size).c_str(),
      size_text(double(head.device_tier_size)).c_str(),
      size_text(double(head.host_tier_size)).c_str(),
      head.service_threads);
  auto const line = [&](const char *name, uint64_t total, uint64_t grown) {
    add(text,
        "  %-18s %14llu  %12.0f/s\n",
        name,
        (unsigned long long)total,
        per_second(grown, recent));
  };
  for (counter_name const &counter : counter_names)
    if (!std::string_view(counter.name).ends_with("_size"))
      line(counter.name, totals.*counter.member, counts.*counter.member);
  for (counter_name const &counter : counter_names)
    if (std::string_view(counter.name).ends_with("_size"))
      add(text,
          "  %-18s %14s  %12s/s\n",
          counter.name,
          size_text(double(totals.*counter.member)).c_str(),
          size_text(per_second(counts.*counter.member, recent)).c_str());
  add(text, "  found without the CPU %.1f %%", 100 * hit_ratio(counts));
  add(text,
      "; misses answered within: half %.0f us, 90 %% %.0f us, 99 %% %.0f us\n",
      double(latency_ns(counts, 0.5)) / 1e3,
      double(latency_ns(counts, 0.9)) / 1e3,
      double(latency_ns(counts, 0.99)) / 1e3);
  for (tnd_gfile_file const &file : current.files) {
    add(text, "  %s\n", printable(file.url).c_str());
    add(text,
        "    %s%s%s; %s, open %u, to write %u; read %s, written %s; pages: device %llu, host %llu, "
        "mapped %llu, "
        "direct %llu, missed %llu\n",
        path_name(file.path),
        file.reason[0] != 0 ? ": " : "",
        printable(file.reason).c_str(),
        size_text(double(file.size)).c_str(),
        file.opens,
        file.write_opens,
        size_text(double(file.read_size)).c_str(),
        size_text(double(file.write_size)).c_str(),
        (unsigned long long)file.device_hits,
        (unsigned long long)file.host_hits,
        (unsigned long long)file.mapped_copies,
        (unsigned long long)file.direct_copies,
        (unsigned long long)file.misses);
  }
  if (head.file_total > current.files.size())
    add(text, "  and %zu more files\n", head.file_total - current.files.size());
  return text;
}

}  // namespace tanada::command
