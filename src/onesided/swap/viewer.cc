#include "onesided/swap/viewer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "onesided/swap/board.hpp"

namespace tanada::comex::swap {
namespace {

template <class... Values>
void append(std::string &to, const char *format, Values... values) {
  char text[512];
  int const size = std::snprintf(text, sizeof text, format, values...);
  to.append(text, size_t(size));
}

double seconds(uint64_t ns) {
  return double(ns) / 1e9;
}

}  // namespace

std::string describe(const board &of) {
  auto const &options = of.options();
  auto const &all = of.counters();
  uint64_t const now_ns = of.time().now_ns();
  std::string line;
  append(line,
         "{\"process\":%d,\"budget\":%" PRIu64 ",\"cache_size\":%" PRIu64
         ",\"slots\":%u,\"time\":%.6f,",
         int(getpid()), options.budget, options.cache_size, options.slots, seconds(now_ns));
  append(line,
         "\"bytes_out\":%" PRIu64 ",\"bytes_in\":%" PRIu64 ",\"bytes_served\":%" PRIu64
         ",\"bytes_written_back\":%" PRIu64 ",",
         all.bytes_out.load(), all.bytes_in.load(), all.bytes_served.load(),
         all.bytes_written_back.load());
  append(line,
         "\"swaps_out\":%" PRIu64 ",\"swaps_in\":%" PRIu64 ",\"requests\":%" PRIu64
         ",\"beyond_budget\":%" PRIu64 ",\"move_seconds\":%.6f,\"ranks\":[",
         all.swaps_out.load(), all.swaps_in.load(), all.requests.load(), all.beyond_budget.load(),
         seconds(all.move_ns));
  for (uint32_t i = 0; i < of.rank_count(); i++) {
    auto const each = of.look(i);
    uint64_t const since_ns = now_ns - std::min(now_ns, each.since_ns);
    append(line,
           "%s{\"rank\":%d,\"process\":%d,\"state\":\"%s\",\"wants\":%s,\"here\":%" PRIu64
           ",\"away\":%" PRIu64 ",\"allocated\":%" PRIu64,
           i == 0 ? "" : ",", of.number_of(i), of.process_of(i), name_of(each.state),
           each.wants ? "true" : "false", each.here, each.away, each.allocated);
    append(line, ",\"seconds\":%.6f}", each.since_ns == 0 ? 0.0 : seconds(since_ns));
  }
  return line + "]}\n";
}

}  // namespace tanada::comex::swap
