#include "pool_session.hpp"

#include <cstdio>
#include <cstdlib>

#include "text.hpp"

namespace tanada::command {

std::string dump(const nlohmann::json &document, int indent) {
  return document.dump(indent, ' ', true, nlohmann::json::error_handler_t::replace);
}

void answer::fail(const std::string &what, tnd_status code) {
  std::string words = tnd_last_message();
  if (words.empty())
    words = tnd_status_text(code);
  if (words.starts_with(what + ": "))
    words.erase(0, what.size() + 2);  // the library names it, too
  fail(what, code, words);
}

void answer::fail(const std::string &what, tnd_status code, const std::string &words) {
  has_failed_ = true;
  std::fflush(stdout);  // so that both streams of a terminal read in order
  std::fprintf(stderr, "tanada: %s: %s (%s)\n", printable(what).c_str(), printable(words).c_str(),
               tnd_status_name(code));
  if (json_)
    document_["errors"].push_back(
        {{"what", what}, {"status", tnd_status_name(code)}, {"message", words}});
}

int answer::finish() {
  if (json_)
    std::puts(dump(document_, 2).c_str());
  if (std::fflush(stdout) != 0) {
    std::perror("tanada: standard output");
    return 1;
  }
  return has_failed_ ? 1 : 0;
}

pool_session::pool_session(const pool_options &options, answer &told)
    : key_file_{options.key_file}, told_{told} {
  // A variable wins over the configuration; an option of the command line wins over both.
  if (!key_file_.empty()) {
    ::unsetenv("TND_POOL_KEY_FILE");
    config_.key_file = key_file_.c_str();
  }
  if (options.timeout_s > 0) {
    ::unsetenv("TND_POOL_TIMEOUT");
    config_.timeout_ns = uint64_t(options.timeout_s * 1e9);
  }
}

tnd_pool *pool_session::connect(const pool::address &at) {
  std::string const url = space_url(at);
  if (auto const known = connections_.find(url); known != connections_.end())
    return known->second.get();
  tnd_pool *made = nullptr;
  config_.flags = at.space.empty() ? TND_POOL_NO_NAMESPACE : 0;
  tnd_status const code = tnd_pool_connect(url.c_str(), &config_, &made);
  if (code != TND_OK)
    told_.fail(url, code);
  connections_.emplace(url, made);  // one that failed is told once
  return made;
}

nlohmann::json pool_session::connections_json() const {
  nlohmann::json all = nlohmann::json::array();
  for (auto const &[url, connection] : connections_) {
    tnd_pool_connection link{};
    link.struct_size = sizeof link;
    if (connection == nullptr || tnd_pool_get_connection(connection.get(), &link) != TND_OK)
      continue;
    all.push_back(connection_json(url, link));
    all.back()["traffic"] = traffic_json(connection.get());
  }
  return all;
}

namespace {

tnd_pool_traffic traffic_of(tnd_pool *pool) {
  tnd_pool_traffic all{};
  all.struct_size = sizeof all;
  all.last_path = TND_POOL_PATH_NONE;
  (void)!tnd_pool_get_traffic(pool, &all);
  return all;
}

}  // namespace

nlohmann::json traffic_json(tnd_pool *pool) {
  tnd_pool_traffic const of = traffic_of(pool);
  nlohmann::json all = nlohmann::json::object();
  for (uint32_t i = 0; i < TND_POOL_PATH_COUNT; i++) {
    tnd_pool_path_traffic const &each = of.by_path[i];
    if (each.writes + each.reads == 0)
      continue;
    all[pool::path_name(i)] = {{"writes", each.writes},
                               {"written_size", each.written_size},
                               {"reads", each.reads},
                               {"read_size", each.read_size}};
  }
  return all;
}

tnd_status namespace_owned(tnd_pool *pool, const std::string &space, uint64_t &owned) {
  auto const take = [](void *of, const char *, const tnd_pool_namespace_info *info) {
    *static_cast<uint64_t *>(of) = info->owned;
    return 1;
  };
  owned = 0;
  return tnd_pool_list_namespaces(pool, space.c_str(), take, &owned);
}

const char *last_path_name(tnd_pool *pool) {
  return pool::path_name(traffic_of(pool).last_path);
}

nlohmann::json connection_json(const std::string &url, const tnd_pool_connection &of) {
  return {{"url", url},
          {"path", pool::path_name(of.path)},
          {"reason", of.reason},
          {"can_write", of.can_write != 0},
          {"is_durable", of.is_durable != 0},
          {"sent_size", of.sent_size},
          {"received_size", of.received_size}};
}

std::string object_url(const pool::address &at, const std::string &name) {
  return space_url(at) + "/" + name;
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
  std::snprintf(checksum, sizeof checksum,
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
