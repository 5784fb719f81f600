// Serves a daemon's page from a file: `pool_web_served FILE` reads FILE for each request, prints
// its port, and serves until its standard input ends. FILE is JSON in the format of /stats.json.
// Values that are missing in FILE are 0.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "products/pool/web/web.hpp"

namespace {

using tanada::pool::pool_report;

pool_report::cluster_state read_cluster(const nlohmann::json &object) {
  pool_report::cluster_state cluster;
  cluster.copies = object.value("copies", 0u);
  cluster.partition_count = object.value("partitions", 0u);
  cluster.missing_count = object.value("missing", 0u);
  cluster.silence_ns = uint64_t(object.value("silence_s", 0.0) * 1e9);
  cluster.repaired_size = object.value("repaired_size", uint64_t{0});
  for (auto const &server : object.at("servers"))
    cluster.servers.push_back({server.at("name"),
                               "",
                               server.at("state"),
                               server.at("problem"),
                               server.value("primaries", 0u),
                               server.value("copies", 0u),
                               server.value("joining", 0u)});
  return cluster;
}

pool_report read(const char *path) {
  std::ifstream file{path};
  nlohmann::json const document = nlohmann::json::parse(file);
  auto const number = [](const nlohmann::json &object, const char *name) {
    return object.value(name, uint64_t{0});
  };
  pool_report report;
  report.backing = document.value("backing", "dram");
  report.durability = document.value("durability", "none");
  report.capacity = number(document, "capacity");
  report.used = number(document, "used");
  report.memory_capacity = number(document, "memory_capacity");
  report.memory_used = number(document, "memory_used");
  report.owned = number(document, "owned");
  report.object_count = number(document, "object_count");
  report.committed_size = number(document, "committed_size");
  report.commits = number(document, "commits");
  report.opens = number(document, "opens");
  report.evictions = number(document, "evictions");
  report.errors = number(document, "errors");
  report.uptime_ns = uint64_t(document.value("uptime_s", 0.0) * 1e9);
  report.transfers[TND_POOL_PATH_TCP] = {number(document, "written_size"),
                                         number(document, "read_size")};
  for (auto const &space : document.value("namespaces", nlohmann::json::array()))
    report.spaces.push_back({space.at("name"),
                             number(space, "used"),
                             number(space, "object_count"),
                             number(space, "quota"),
                             number(space, "owned"),
                             number(space, "segment_count")});
  for (auto const &client : document.value("clients", nlohmann::json::array()))
    report.clients.push_back({client.at("peer"),
                              client.at("namespace"),
                              TND_POOL_PATH_TCP,
                              number(client, "written_size"),
                              number(client, "read_size"),
                              uint64_t(client.value("connected_s", 0.0) * 1e9)});
  if (document.contains("cluster"))
    report.cluster = read_cluster(document.at("cluster"));
  return report;
}

}  // namespace

int main(int count, char **words) {
  if (count != 2)
    return 2;
  auto server = tanada::pool::web_start({}, [path = words[1]] { return read(path); });
  if (!server.ok())
    return 1;
  std::printf("%u\n", unsigned(server.value()->port()));
  std::fflush(stdout);
  while (std::getchar() != EOF)
    continue;
  return 0;
}
