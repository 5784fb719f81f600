#include "stat_report.hpp"

#include <gtest/gtest.h>

namespace tanada::command {
namespace {

TEST(stat_report, ratios_without_counts_are_zero) {
  tnd_gfile_statistics const zeros = TND_GFILE_STATISTICS_INIT;
  EXPECT_EQ(hit_ratio(zeros), 0);
  EXPECT_EQ(latency_ns(zeros, 0.5), 0u);
}

TEST(stat_report, percentiles_are_the_ends_of_their_buckets) {
  tnd_gfile_statistics counts = TND_GFILE_STATISTICS_INIT;
  counts.rpc_latency[10] = 90;  // 1 to 2 us
  counts.rpc_latency[20] = 9;   // 1 to 2 ms
  counts.rpc_latency[31] = 1;
  EXPECT_EQ(latency_ns(counts, 0.5), 2048u);
  EXPECT_EQ(latency_ns(counts, 0.9), 2048u);
  EXPECT_EQ(latency_ns(counts, 0.99), 2u << 20);
  EXPECT_EQ(latency_ns(counts, 1), uint64_t{1} << 32);
}

TEST(stat_report, rates_are_of_the_time_between_two_samples) {
  gfile::stat_page previous{}, current{};
  previous.header.now_ns = 1'000'000'000;
  previous.header.statistics.misses = 10;
  current.header.now_ns = 3'000'000'000;
  current.header.statistics.misses = 30;
  current.header.statistics.device_hits = 60;
  current.files.resize(1);
  current.files[0].path = 77;
  nlohmann::json const report = stat_json(current, &previous);
  EXPECT_EQ(report["per_second"]["misses"], 10);
  EXPECT_EQ(report["counters"]["misses"], 30);
  EXPECT_EQ(report["hit_ratio"], 0.75);
  EXPECT_EQ(report["files"][0]["path"], "unknown");
  EXPECT_NE(stat_text(current, &previous).find("10/s"), std::string::npos);
}

TEST(stat_report, names_cannot_command_a_terminal) {
  gfile::stat_page current{};
  current.files.resize(1);
  std::snprintf(current.files[0].url, sizeof current.files[0].url, "mem://\x1b[2J\n");
  EXPECT_EQ(stat_text(current, nullptr).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace tanada::command
