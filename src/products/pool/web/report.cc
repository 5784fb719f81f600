#include "products/pool/web/report.hpp"

#include <tanada/version.h>

#include <nlohmann/json.hpp>

namespace tanada::pool {
namespace {

constexpr size_t client_count_max = 200;

}  // namespace

uint64_t pool_report::written_size() const noexcept {
  uint64_t all = 0;
  for (transfer const &each : transfers)
    all += each.written_size;
  return all;
}

uint64_t pool_report::read_size() const noexcept {
  uint64_t all = 0;
  for (transfer const &each : transfers)
    all += each.read_size;
  return all;
}

std::string report_json(const pool_report &report) {
  using nlohmann::json;
  json spaces = json::array(), clients = json::array(), paths = json::object();
  for (pool_report::space const &each : report.spaces)
    spaces.push_back({{"name", each.name},
                      {"used", each.used},
                      {"object_count", each.object_count},
                      {"quota", each.quota},
                      {"owned", each.owned},
                      {"segment_count", each.segment_count}});
  for (pool_report::client const &each : report.clients) {
    if (clients.size() == client_count_max)
      break;
    clients.push_back({{"peer", each.peer},
                       {"namespace", each.space},
                       {"path", path_name(each.path)},
                       {"written_size", each.written_size},
                       {"read_size", each.read_size},
                       {"connected_s", double(each.connected_ns) / 1e9}});
  }
  for (size_t i = 0; i < report_path_count; i++)
    paths[path_name(uint32_t(i))] = {{"written_size", report.transfers[i].written_size},
                                     {"read_size", report.transfers[i].read_size}};
  json errors = json::object();
  for (auto const &[name, count] : report.errors_by_status)
    if (count != 0)
      errors[name] = count;
  json const all = {{"version", TND_VERSION_STRING},
                    {"backing", report.backing},
                    {"uptime_s", double(report.uptime_ns) / 1e9},
                    {"capacity", report.capacity},
                    {"used", report.used},
                    {"owned", report.owned},
                    {"object_count", report.object_count},
                    {"written_size", report.written_size()},
                    {"read_size", report.read_size()},
                    {"committed_size", report.committed_size},
                    {"commits", report.commits},
                    {"opens", report.opens},
                    {"evictions", report.evictions},
                    {"errors", report.errors},
                    {"errors_by_status", errors},
                    {"refused", report.refused},
                    {"paths", paths},
                    {"namespaces", spaces},
                    {"clients", clients},
                    {"client_count", report.clients.size()}};
  return all.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace tanada::pool
