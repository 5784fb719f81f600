// The daemon's report as JSON, for its page.
#include "products/pool/web/report.hpp"

#include <tanada/version.h>

#include <nlohmann/json.hpp>

namespace tanada::pool {
namespace {

using nlohmann::json;

constexpr size_t client_count_max = 200;

json spaces_of(const pool_report &report) {
  json spaces = json::array();
  for (pool_report::space const &space : report.spaces)
    spaces.push_back({{"name", space.name},
                      {"used", space.used},
                      {"object_count", space.object_count},
                      {"quota", space.quota},
                      {"owned", space.owned},
                      {"segment_count", space.segment_count}});
  return spaces;
}

json clients_of(const pool_report &report) {
  json clients = json::array();
  for (pool_report::client const &client : report.clients) {
    if (clients.size() == client_count_max)
      break;
    clients.push_back({{"peer", client.peer},
                       {"namespace", client.space},
                       {"path", path_name(client.path)},
                       {"written_size", client.written_size},
                       {"read_size", client.read_size},
                       {"connected_s", double(client.connected_ns) / 1e9}});
  }
  return clients;
}

json paths_of(const pool_report &report) {
  json paths = json::object();
  for (size_t i = 0; i < report_path_count; i++)
    paths[path_name(uint32_t(i))] = {{"written_size", report.transfers[i].written_size},
                                     {"read_size", report.transfers[i].read_size}};
  return paths;
}

// null: the daemon is no server of a cluster.
json cluster_of(const pool_report &report) {
  if (!report.cluster)
    return nullptr;
  json servers = json::array();
  for (pool_report::cluster_server const &server : report.cluster->servers)
    servers.push_back({{"name", server.name},
                       {"domain", server.domain},
                       {"state", server.state},
                       {"problem", server.problem},
                       {"primaries", server.primary_count},
                       {"copies", server.copy_count},
                       {"joining", server.joining_count}});
  return {{"copies", report.cluster->copies},
          {"partitions", report.cluster->partition_count},
          {"missing", report.cluster->missing_count},
          {"offline", report.cluster->offline_count},
          {"lost", report.cluster->lost_count},
          {"silence_s", double(report.cluster->silence_ns) / 1e9},
          {"repaired_size", report.cluster->repaired_size},
          {"servers", std::move(servers)}};
}

json errors_of(const pool_report &report) {
  json errors = json::object();
  for (auto const &[name, count] : report.errors_by_status)
    if (count != 0)
      errors[name] = count;
  return errors;
}

}  // namespace

uint64_t pool_report::written_size() const noexcept {
  uint64_t total = 0;
  for (transfer const &entry : transfers)
    total += entry.written_size;
  return total;
}

uint64_t pool_report::read_size() const noexcept {
  uint64_t total = 0;
  for (transfer const &entry : transfers)
    total += entry.read_size;
  return total;
}

std::string report_json(const pool_report &report) {
  json const document = {{"version", TND_VERSION_STRING},
                         {"backing", report.backing},
                         {"durability", report.durability},
                         {"uptime_s", double(report.uptime_ns) / 1e9},
                         {"capacity", report.capacity},
                         {"used", report.used},
                         {"memory_capacity", report.memory_capacity},
                         {"memory_used", report.memory_used},
                         {"cold_count", report.cold_count},
                         {"cold_size", report.cold_size},
                         {"demotions", report.demotions},
                         {"promotions", report.promotions},
                         {"owned", report.owned},
                         {"object_count", report.object_count},
                         {"written_size", report.written_size()},
                         {"read_size", report.read_size()},
                         {"committed_size", report.committed_size},
                         {"commits", report.commits},
                         {"opens", report.opens},
                         {"evictions", report.evictions},
                         {"errors", report.errors},
                         {"errors_by_status", errors_of(report)},
                         {"refused", report.refused},
                         {"paths", paths_of(report)},
                         {"cluster", cluster_of(report)},
                         {"namespaces", spaces_of(report)},
                         {"clients", clients_of(report)},
                         {"client_count", report.clients.size()}};
  return document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace tanada::pool
