// cmd/tanada/pool_session.cc: connections and reports of the commands of `tanada pool`.
#include "pool_session.hpp"

#include <cstdio>
#include <cstdlib>

#include "text.hpp"

namespace tanada::command {

std::string dump(const nlohmann::json &document, int indent) {
  return document.dump(indent, ' ', true, nlohmann::json::error_handler_t::replace);
}

void command_report::fail(const std::string &subject, tnd_status code) {
  std::string message = tnd_last_message();
  if (message.empty())
    message = tnd_status_text(code);
  if (message.starts_with(subject + ": "))
    message.erase(0, subject.size() + 2);  // the library's message also begins with it
  fail(subject, code, message);
}

void command_report::fail(const std::string &subject, tnd_status code, const std::string &message) {
  has_failed_ = true;
  std::fflush(stdout);  // so that both streams appear in order on a terminal
  std::fprintf(stderr,
               "tanada: %s: %s (%s)\n",
               printable(subject).c_str(),
               printable(message).c_str(),
               tnd_status_name(code));
  if (json_)
    document_["errors"].push_back(
        {{"what", subject}, {"status", tnd_status_name(code)}, {"message", message}});
}

int command_report::finish() {
  if (json_)
    std::puts(dump(document_, 2).c_str());
  if (std::fflush(stdout) != 0) {
    std::perror("tanada: standard output");
    return 1;
  }
  return has_failed_ ? 1 : 0;
}

pool_session::pool_session(const pool_options &options, command_report &report)
    : key_file_{options.key_file}, report_{report} {
  // A variable overrides the configuration, and an option of the command line overrides both.
  if (!key_file_.empty()) {
    ::unsetenv("TND_POOL_KEY_FILE");
    config_.key_file = key_file_.c_str();
  }
  if (options.timeout_s > 0) {
    ::unsetenv("TND_POOL_TIMEOUT");
    config_.timeout_ns = uint64_t(options.timeout_s * 1e9);
  }
}

tnd_pool *pool_session::connect(const pool::address &address) {
  std::string const url = space_url(address);
  if (auto const it = connections_.find(url); it != connections_.end())
    return it->second.get();
  tnd_pool *connection = nullptr;
  config_.flags = address.space.empty() ? TND_POOL_NO_NAMESPACE : 0;
  tnd_status const code = tnd_pool_connect(url.c_str(), &config_, &connection);
  if (code != TND_OK)
    report_.fail(url, code);
  connections_.emplace(url, connection);  // so that a failed connection is reported only once
  return connection;
}

nlohmann::json pool_session::connections_json() const {
  nlohmann::json list = nlohmann::json::array();
  for (auto const &[url, connection] : connections_) {
    tnd_pool_connection link{};
    link.struct_size = sizeof link;
    if (connection == nullptr || tnd_pool_get_connection(connection.get(), &link) != TND_OK)
      continue;
    list.push_back(connection_json(url, link));
    list.back()["traffic"] = traffic_json(connection.get());
  }
  return list;
}

namespace {

tnd_pool_traffic traffic_of(tnd_pool *pool) {
  tnd_pool_traffic traffic{};
  traffic.struct_size = sizeof traffic;
  traffic.last_path = TND_POOL_PATH_NONE;
  (void)!tnd_pool_get_traffic(pool, &traffic);
  return traffic;
}

}  // namespace

nlohmann::json traffic_json(tnd_pool *pool) {
  tnd_pool_traffic const traffic = traffic_of(pool);
  nlohmann::json list = nlohmann::json::object();
  for (uint32_t i = 0; i < TND_POOL_PATH_COUNT; i++) {
    tnd_pool_path_traffic const &path_traffic = traffic.by_path[i];
    if (path_traffic.writes + path_traffic.reads == 0)
      continue;
    list[pool::path_name(i)] = {{"writes", path_traffic.writes},
                                {"written_size", path_traffic.written_size},
                                {"reads", path_traffic.reads},
                                {"read_size", path_traffic.read_size}};
  }
  return list;
}

tnd_status namespace_owned(tnd_pool *pool, const std::string &space, uint64_t &owned) {
  auto const take_owned = [](void *context, const char *, const tnd_pool_namespace_info *info) {
    *static_cast<uint64_t *>(context) = info->owned;
    return 1;
  };
  owned = 0;
  return tnd_pool_list_namespaces(pool, space.c_str(), take_owned, &owned);
}

const char *last_path_name(tnd_pool *pool) {
  return pool::path_name(traffic_of(pool).last_path);
}

nlohmann::json connection_json(const std::string &url, const tnd_pool_connection &connection) {
  return {{"url", url},
          {"path", pool::path_name(connection.path)},
          {"reason", connection.reason},
          {"can_write", connection.can_write != 0},
          {"is_durable", connection.is_durable != 0},
          {"sent_size", connection.sent_size},
          {"received_size", connection.received_size}};
}

std::string object_url(const pool::address &address, const std::string &name) {
  return space_url(address) + "/" + name;
}

const char *checksum_name(uint32_t kind) {
  static constexpr const char *names[] = {"none", "crc32c", "xxh3"};
  return kind < std::size(names) ? names[kind] : "unknown";
}

namespace {

constexpr std::pair<uint32_t, const char *> flag_names[] = {
    {TND_POOL_EVICTABLE, "evictable"}, {TND_POOL_PINNED, "pinned"}, {TND_POOL_DURABLE, "durable"}};

}  // namespace

std::string flags_text(uint32_t flags) {
  std::string text;
  for (auto const &[flag, name] : flag_names)
    if ((flags & flag) != 0)
      text += (text.empty() ? "" : ",") + std::string(name);
  return text.empty() ? "-" : text;
}

nlohmann::json info_json(const tnd_pool_info &info) {
  nlohmann::json flags = nlohmann::json::array();
  for (auto const &[flag, name] : flag_names)
    if ((info.flags & flag) != 0)
      flags.push_back(name);
  char checksum[32];
  std::snprintf(checksum,
                sizeof checksum,
                info.checksum_kind == TND_POOL_CHECKSUM_CRC32C ? "%08llx" : "%016llx",
                (unsigned long long)info.checksum);
  return {{"size", info.size},
          {"version", info.version},
          {"created_ns", info.created_ns},
          {"checksum_kind", checksum_name(info.checksum_kind)},
          {"checksum", info.checksum_kind == TND_POOL_CHECKSUM_NONE ? "" : checksum},
          {"flags", flags}};
}

}  // namespace tanada::command
