// Formats the state of a node's processes as one line of JSON.
#include "onesided/swap/viewer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "core/base/assert.hpp"
#include "onesided/swap/node_table.hpp"

namespace tanada::onesided::swap {
namespace {

template <class... Values>
void append(std::string &target, const char *format, Values... values) {
  char text[512];
  int const size = std::snprintf(text, sizeof text, format, values...);
  TND_ASSERT(size >= 0 && size_t(size) < sizeof text);
  target.append(text, size_t(size));
}

double seconds(uint64_t ns) {
  return double(ns) / 1e9;
}

void append_counters(std::string &line, const node_counters &counters) {
  append(line,
         "\"bytes_out\":%" PRIu64 ",\"bytes_in\":%" PRIu64 ",\"bytes_served\":%" PRIu64
         ",\"bytes_written_back\":%" PRIu64 ",",
         counters.bytes_out.load(),
         counters.bytes_in.load(),
         counters.bytes_served.load(),
         counters.bytes_written_back.load());
  append(line,
         "\"swaps_out\":%" PRIu64 ",\"swaps_in\":%" PRIu64 ",\"requests\":%" PRIu64
         ",\"beyond_budget\":%" PRIu64 ",\"move_seconds\":%.6f,",
         counters.swaps_out.load(),
         counters.swaps_in.load(),
         counters.requests.load(),
         counters.beyond_budget.load(),
         seconds(counters.move_ns));
}

void append_rank(std::string &line, const node_table &table, uint32_t index, uint64_t now_ns) {
  auto const rank = table.snapshot(index);
  uint64_t const since_ns = now_ns - std::min(now_ns, rank.since_ns);
  append(line,
         "%s{\"rank\":%d,\"process\":%d,\"state\":\"%s\",\"wants\":%s,\"here\":%" PRIu64
         ",\"away\":%" PRIu64 ",\"allocated\":%" PRIu64,
         index == 0 ? "" : ",",
         table.job_rank_of(index),
         table.process_id_of(index),
         name_of(rank.state),
         rank.wants_to_run ? "true" : "false",
         rank.resident_size,
         rank.swapped_size,
         rank.allocated);
  append(line, ",\"seconds\":%.6f}", rank.since_ns == 0 ? 0.0 : seconds(since_ns));
}

}  // namespace

std::string describe(const node_table &table) {
  auto const &options = table.options();
  uint64_t const now_ns = table.time().now_ns();
  std::string line;
  append(line,
         "{\"process\":%d,\"budget\":%" PRIu64 ",\"cache_size\":%" PRIu64
         ",\"slots\":%u,\"time\":%.6f,",
         int(getpid()),
         options.budget,
         options.cache_size,
         options.slots,
         seconds(now_ns));
  append_counters(line, table.counters());
  line += "\"ranks\":[";
  for (uint32_t i = 0; i < table.rank_count(); i++) {
    append_rank(line, table, i, now_ns);
  }
  return line + "]}\n";
}

}  // namespace tanada::onesided::swap
