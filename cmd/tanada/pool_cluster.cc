// cmd/tanada/pool_cluster.cc: tanada pool cluster, the servers of a cluster.
#include <cerrno>
#include <charconv>
#include <cstdio>

#include "pool_commands.hpp"
#include "pool_location.hpp"
#include "text.hpp"

namespace tanada::command {
namespace {

const char *state_name(uint32_t state) {
  static constexpr const char *names[] = {"up", "draining", "away"};
  return state < std::size(names) ? names[state] : "unknown";
}

const char *copies_text(uint32_t count) {
  return count == 1 ? "copy" : "copies";
}

int print_server(void *context, const tnd_pool_server *server) {
  auto &report = *static_cast<command_report *>(context);
  report.document()["servers"].push_back({{"name", server->name},
                                          {"address", server->address},
                                          {"domain", server->domain},
                                          {"state", state_name(server->state)},
                                          {"primaries", server->primary_count},
                                          {"copies", server->copy_count},
                                          {"joining", server->joining_count},
                                          {"fragments", server->fragment_count},
                                          {"problem", server->problem}});
  if (report.json())
    return 0;
  // A server that does not run serves nothing: its partitions wait for it.
  std::printf("  %-24s %-9s %4u %s, %4u %s, %4u being copied%s%s\n",
              server->name,
              state_name(server->state),
              server->primary_count,
              server->state == TND_POOL_SERVER_AWAY ? "waiting" : "served",
              server->copy_count,
              copies_text(server->copy_count),
              server->joining_count,
              server->domain[0] != 0 ? ", domain " : "",
              server->domain);
  if (server->fragment_count > 0)
    std::printf("    %u fragment%s\n",
                server->fragment_count,
                server->fragment_count == 1 ? "" : "s");
  if (server->problem[0] != 0)
    std::printf("    %s\n", printable(server->problem).c_str());
  return 0;
}

int print_erasure(void *context, const tnd_pool_erasure *setting) {
  auto &report = *static_cast<command_report *>(context);
  std::string const code =
      std::to_string(setting->data_count) + "+" + std::to_string(setting->parity_count);
  report.document()["erasure"][setting->namespace_name] = code;
  if (!report.json())
    std::printf("  large objects of %s: erasure code %s\n",
                printable(setting->namespace_name).c_str(),
                code.c_str());
  return 0;
}

// "4+2", or "off". False: it is neither.
bool parse_erasure(const std::string &text, uint32_t &data_count, uint32_t &parity_count) {
  data_count = parity_count = 0;
  if (text == "off")
    return true;
  const char *const end = text.data() + text.size();
  auto const data = std::from_chars(text.data(), end, data_count);
  if (data.ec != std::errc{} || data.ptr == end || *data.ptr != '+')
    return false;
  auto const parity = std::from_chars(data.ptr + 1, end, parity_count);
  return parity.ec == std::errc{} && parity.ptr == end && data_count > 0;
}

// A connection to any server of the cluster, without a namespace. Null: the error was reported.
tnd_pool *connect(pool_session &session, const std::string &url, command_report &report) {
  auto const address = pool::address_parse(url, false);
  if (!address.ok()) {
    report.fail(url, tnd_status(address.error()));
    return nullptr;
  }
  return session.connect(address.value());
}

int set_draining(const pool_cluster_options &options, bool is_draining) {
  command_report report{options.json};
  pool_session session{options, report};
  if (tnd_pool *const pool = connect(session, options.url, report); pool != nullptr)
    if (tnd_status const code =
            tnd_pool_set_draining(pool, options.server.c_str(), is_draining ? 1 : 0);
        code != TND_OK)
      report.fail(options.server, code);
  return report.finish();
}

}  // namespace

int pool_cluster_status(const pool_cluster_options &options) {
  command_report report{options.json};
  pool_session session{options, report};
  tnd_pool *const pool = connect(session, options.url, report);
  if (pool == nullptr)
    return report.finish();
  tnd_pool_cluster cluster = TND_POOL_CLUSTER_INIT;
  tnd_status code = tnd_pool_get_cluster(pool, &cluster, nullptr, nullptr);
  if (code != TND_OK) {
    report.fail(options.url, code);
    return report.finish();
  }
  report.document() = {{"epoch", cluster.epoch},
                       {"copies", cluster.copies},
                       {"partitions", cluster.partition_count},
                       {"missing", cluster.missing_count},
                       {"offline", cluster.offline_count},
                       {"lost", cluster.lost_count},
                       {"silence_s", double(cluster.silence_ns) / 1e9},
                       {"servers", nlohmann::json::array()},
                       {"erasure", nlohmann::json::object()}};
  if (!report.json())
    std::printf(
        "cluster of %u partitions with %u %s: %u %s missing, %u %s offline, %u lost\n",
        cluster.partition_count,
        cluster.copies,
        copies_text(cluster.copies),
        cluster.missing_count,
        copies_text(cluster.missing_count),
        cluster.offline_count,
        cluster.offline_count == 1 ? "partition" : "partitions",
        cluster.lost_count);
  if (!report.json() && cluster.silence_ns > 0)
    std::printf("  as of %s ago: etcd does not answer this server\n",
                duration_text(double(cluster.silence_ns) / 1e9).c_str());
  code = tnd_pool_get_cluster(pool, nullptr, print_server, &report);
  if (code == TND_OK)
    code = tnd_pool_list_erasure(pool, print_erasure, &report);
  if (code != TND_OK)
    report.fail(options.url, code);
  return report.finish();
}

int pool_cluster_drain(const pool_cluster_options &options) {
  return set_draining(options, true);
}

int pool_cluster_add(const pool_cluster_options &options) {
  return set_draining(options, false);
}

// What would be lost is reported before it is.
int pool_cluster_remove(const pool_cluster_options &options) {
  command_report report{options.json};
  pool_session session{options, report};
  tnd_pool *const pool = connect(session, options.url, report);
  if (pool == nullptr)
    return report.finish();
  tnd_status code = tnd_pool_remove_server(pool, options.server.c_str(), 0);
  if (code == -EBUSY && options.is_forced) {
    std::string const reason = tnd_last_message();
    report.document()["lost"] = reason;
    if (!report.json())
      std::printf("%s\n", printable(reason).c_str());
    code = tnd_pool_remove_server(pool, options.server.c_str(), 1);
  }
  if (code != TND_OK)
    report.fail(options.server, code);
  return report.finish();
}

int pool_cluster_set(const pool_cluster_options &options) {
  command_report report{options.json};
  uint32_t data_count = 0, parity_count = 0;
  if (!parse_erasure(options.erasure, data_count, parity_count)) {
    report.fail(options.space, -EINVAL, "--erasure is K+M, such as 4+2, or off");
    return report.finish();
  }
  pool_session session{options, report};
  if (tnd_pool *const pool = connect(session, options.url, report); pool != nullptr)
    if (tnd_status const code =
            tnd_pool_set_erasure(pool, options.space.c_str(), data_count, parity_count);
        code != TND_OK)
      report.fail(options.space, code);
  return report.finish();
}

int pool_cluster_clear(const pool_cluster_options &options) {
  command_report report{options.json};
  pool_session session{options, report};
  if (tnd_pool *const pool = connect(session, options.url, report); pool != nullptr)
    if (tnd_status const code = tnd_pool_clear_losses(pool); code != TND_OK)
      report.fail(options.url, code);
  return report.finish();
}

}  // namespace tanada::command
