// A daemon's page with nothing behind it: `pool_web_served FILE` reads FILE, JSON as of
// /stats.json, for each request, prints its port and serves until its standard input ends. What
// FILE lacks is 0.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "products/pool/web/web.hpp"

namespace {

using tanada::pool::pool_report;

pool_report read(const char *path) {
  std::ifstream file{path};
  nlohmann::json const from = nlohmann::json::parse(file);
  auto const number = [](const nlohmann::json &of, const char *name) {
    return of.value(name, uint64_t{0});
  };
  pool_report report;
  report.backing = from.value("backing", "dram");
  report.capacity = number(from, "capacity");
  report.used = number(from, "used");
  report.owned = number(from, "owned");
  report.object_count = number(from, "object_count");
  report.committed_size = number(from, "committed_size");
  report.commits = number(from, "commits");
  report.opens = number(from, "opens");
  report.evictions = number(from, "evictions");
  report.errors = number(from, "errors");
  report.uptime_ns = uint64_t(from.value("uptime_s", 0.0) * 1e9);
  report.transfers[TND_POOL_PATH_TCP] = {number(from, "written_size"), number(from, "read_size")};
  for (auto const &each : from.value("namespaces", nlohmann::json::array()))
    report.spaces.push_back({each.at("name"), number(each, "used"), number(each, "object_count"),
                             number(each, "quota"), number(each, "owned"),
                             number(each, "segment_count")});
  for (auto const &each : from.value("clients", nlohmann::json::array()))
    report.clients.push_back({each.at("peer"), each.at("namespace"), TND_POOL_PATH_TCP,
                              number(each, "written_size"), number(each, "read_size"),
                              uint64_t(each.value("connected_s", 0.0) * 1e9)});
  return report;
}

}  // namespace

int main(int count, char **words) {
  if (count != 2)
    return 2;
  auto server = tanada::pool::web_start(0, [path = words[1]] { return read(path); });
  if (!server.ok())
    return 1;
  std::printf("%u\n", unsigned(server.value()->port()));
  std::fflush(stdout);
  while (std::getchar() != EOF)
    continue;
  return 0;
}
