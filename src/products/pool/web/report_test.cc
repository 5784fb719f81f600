// Tests of the metrics and of the page's JSON.
#include "products/pool/web/report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tanada::pool {
namespace {

bool has_line(const std::string &text, const std::string &line) {
  return ("\n" + text).find("\n" + line + "\n") != text.npos;
}

TEST(report_metrics, families_have_help_and_type) {
  pool_report report;
  report.capacity = 1 << 30;
  report.commits = 3;
  report.uptime_ns = 1'500'000'000;
  report.clients.resize(2);
  report.clients[1].path = TND_POOL_PATH_RDMA;
  report.transfers[TND_POOL_PATH_RDMA] = {7, 8};
  std::string const text = report_metrics(report);
  EXPECT_TRUE(has_line(text, "# TYPE tanada_pool_capacity_bytes gauge"));
  EXPECT_TRUE(has_line(text, "tanada_pool_capacity_bytes 1073741824"));
  EXPECT_TRUE(has_line(text, "# TYPE tanada_pool_commits_total counter"));
  EXPECT_TRUE(has_line(text, "tanada_pool_commits_total 3"));
  EXPECT_TRUE(has_line(text, "tanada_pool_uptime_seconds 1.500"));
  EXPECT_TRUE(has_line(text, "tanada_pool_clients{path=\"tcp\"} 1"));
  EXPECT_TRUE(has_line(text, "tanada_pool_clients{path=\"rdma\"} 1"));
  EXPECT_TRUE(has_line(text, "tanada_pool_read_bytes_total{path=\"rdma\"} 8"));
}

TEST(report_metrics, have_a_cluster_where_there_is_one) {
  pool_report report;
  EXPECT_EQ(report_metrics(report).find("cluster"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(report_json(report))["cluster"].is_null());
  report.cluster = pool_report::cluster_state{
      .copies = 2,
      .partition_count = 256,
      .missing_count = 3,
      .offline_count = 1,
      .lost_count = 4,
      .silence_ns = 12'500'000'000,
      .repaired_size = 77,
      .servers = {{"a:1", "", "up", "", 100, 200, 0}, {"b:1", "", "away", "it is off", 0, 0, 5}}};
  std::string const text = report_metrics(report);
  EXPECT_TRUE(has_line(text, "tanada_pool_cluster_servers{state=\"up\"} 1")) << text;
  EXPECT_TRUE(has_line(text, "tanada_pool_cluster_servers{state=\"away\"} 1"));
  EXPECT_TRUE(has_line(text, "tanada_pool_cluster_unreachable_servers 1"));
  EXPECT_TRUE(has_line(text, "tanada_pool_cluster_missing_copies 3"));
  EXPECT_TRUE(has_line(text, "tanada_pool_cluster_copies_under_way 5"));
  EXPECT_TRUE(has_line(text, "tanada_pool_cluster_silence_seconds 12"));
  EXPECT_TRUE(has_line(text, "tanada_pool_cluster_repaired_bytes_total 77"));
  auto const cluster = nlohmann::json::parse(report_json(report))["cluster"];
  EXPECT_EQ(cluster["lost"], 4);
  EXPECT_EQ(cluster["servers"][1]["problem"], "it is off");
  EXPECT_EQ(cluster["servers"][0]["copies"], 200);
}

TEST(report_metrics, names_of_namespaces_cannot_leave_their_label) {
  pool_report report;
  report.spaces = {{"a\"} 1\n\\", 5, 0, 0}, {"\xff\xc3", 6, 0, 10}, {"棚田", 7, 0, 0}};
  std::string const text = report_metrics(report);
  EXPECT_TRUE(has_line(text, R"(tanada_pool_namespace_used_bytes{namespace="a\"} 1\n\\"} 5)"))
      << text;
  EXPECT_TRUE(has_line(text, R"(tanada_pool_namespace_used_bytes{namespace="\\xFF\\xC3"} 6)"))
      << text;
  EXPECT_TRUE(has_line(text, R"(tanada_pool_namespace_used_bytes{namespace="棚田"} 7)")) << text;
  EXPECT_TRUE(has_line(text, R"(tanada_pool_namespace_quota_bytes{namespace="\\xFF\\xC3"} 10)"));
  EXPECT_EQ(text.find("quota_bytes{namespace=\"a"), text.npos);
}

TEST(report_metrics, what_namespaces_own_stands_beside_what_they_use) {
  pool_report report;
  report.owned = 9;
  report.ring_size = 6;
  report.spaces = {{"a", 5, 1, 0, 8, 2}};
  std::string const text = report_metrics(report);
  EXPECT_TRUE(has_line(text, "tanada_pool_owned_bytes 9")) << text;
  EXPECT_TRUE(has_line(text, "tanada_pool_ring_bytes 6")) << text;
  EXPECT_TRUE(has_line(text, "tanada_pool_namespace_owned_bytes{namespace=\"a\"} 8")) << text;
  EXPECT_TRUE(has_line(text, "tanada_pool_namespace_segments{namespace=\"a\"} 2")) << text;
  auto const read = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(read["owned"], 9);
  EXPECT_EQ(read["namespaces"][0]["owned"], 8);
  EXPECT_EQ(read["namespaces"][0]["segment_count"], 2);
}

TEST(report_metrics, errors_are_told_by_status) {
  pool_report report;
  report.errors_by_status = {{"ENOENT", 3}, {"ENOSPC", 0}};
  report.errors = 3;
  report.refused = 4;
  std::string const text = report_metrics(report);
  EXPECT_TRUE(has_line(text, "# TYPE tanada_pool_errors_total counter"));
  EXPECT_TRUE(has_line(text, "tanada_pool_errors_total{status=\"ENOENT\"} 3"));
  EXPECT_TRUE(has_line(text, "tanada_pool_errors_total{status=\"ENOSPC\"} 0"));
  EXPECT_TRUE(has_line(text, "tanada_pool_refused_connections_total 4"));
  auto const read = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(read["errors"], 3);
  EXPECT_EQ(read["errors_by_status"], (nlohmann::json{{"ENOENT", 3}}));
  EXPECT_EQ(read["refused"], 4);
}

TEST(report_json, is_json_whatever_the_names_are) {
  pool_report report;
  report.spaces = {{"\xff\"", 5, 0, 0}};
  report.transfers[TND_POOL_PATH_TCP] = {7, 8};
  report.transfers[TND_POOL_PATH_UNIX] = {1, 1};
  auto const read = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(read["namespaces"][0]["used"], 5);
  EXPECT_EQ(read["written_size"], 8);
  EXPECT_EQ(read["paths"]["tcp"]["read_size"], 8);
}

TEST(report_json, lists_so_many_clients_and_counts_all) {
  pool_report report;
  report.clients.resize(1000);
  auto const read = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(read["clients"].size(), 200u);
  EXPECT_EQ(read["client_count"], 1000);
}

TEST(path_name, an_unknown_number_is_unknown) {
  EXPECT_STREQ(path_name(TND_POOL_PATH_GPU_DIRECT), "gpu-direct");
  EXPECT_STREQ(path_name(TND_POOL_PATH_FABRIC), "fabric");
  EXPECT_STREQ(path_name(TND_POOL_PATH_NONE), "none");
  EXPECT_STREQ(path_name(99), "unknown");
}

}  // namespace
}  // namespace tanada::pool
