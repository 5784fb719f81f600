#include <tanada/pool.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "core/base/log.hpp"
#include "observe/probes/probes.hpp"
#include "products/pool/auth.hpp"
#include "products/pool/path_name.hpp"

namespace tanada::command {

namespace {

using port::finding;
using port::finding_state;

// The key, if one is set, and the daemon, if one is named.
std::vector<finding> probe_pool(const std::string &url) {
  std::vector<finding> found;
  const char *const key_file = std::getenv("TND_POOL_KEY_FILE");
  if (key_file != nullptr && *key_file != '\0') {
    auto keys = pool::keys_read(key_file);
    bool const is_good = keys.ok() && keys.value().size() == 1;
    std::string const reason =
        keys.ok() ? "it has several keys, and a client has one" : last_message();
    if (is_good) {
      found.push_back({"pool key", finding_state::good, key_file, {}});
    } else {
      found.push_back({"pool key", finding_state::broken, reason,
                       "a file with one line of tanada pool key new, chmod 600"});
    }
  }
  if (url.empty()) {
    found.push_back({"pool",
                     finding_state::good,
                     "none was named: --pool pool://host/namespace tries one",
                     {}});
    return found;
  }
  tnd_pool_config config = TND_POOL_CONFIG_INIT;
  config.timeout_ns = 5'000'000'000;
  tnd_pool *connected = nullptr;
  tnd_pool_connection about{};
  about.struct_size = sizeof about;
  tnd_status code = tnd_pool_connect(url.c_str(), &config, &connected);
  if (code == TND_OK)
    code = tnd_pool_get_connection(connected, &about);
  if (code == TND_OK) {
    found.push_back(
        {"pool", finding_state::good, url + " answers; path: " + pool::path_name(about.path), {}});
  } else {
    found.push_back({"pool", finding_state::broken, url + ": " + tnd_last_message(),
                     "start tanada-poold there; host, port and key as it has them"});
  }
  tnd_pool_disconnect(connected);
  return found;
}

}  // namespace

int doctor(const doctor_options &wanted) {
  static constexpr const char *words[] = {"ok", "lacking", "broken"};
  auto found = port::probe_all({});
  for (finding &part : probe_pool(wanted.pool))
    found.push_back(std::move(part));
  bool is_broken = false;
  nlohmann::json all = nlohmann::json::array();
  for (port::finding const &each : found) {
    is_broken |= each.state == port::finding_state::broken;
    const char *const word = words[size_t(each.state)];
    if (wanted.json) {
      all.push_back(
          {{"topic", each.topic}, {"state", word}, {"text", each.text}, {"remedy", each.remedy}});
    } else {
      std::string const remedy = each.remedy.empty() ? std::string{} : "  [" + each.remedy + "]";
      std::printf("%-8s %-14s %s%s\n", word, each.topic, each.text.c_str(), remedy.c_str());
    }
  }
  if (wanted.json) {
    nlohmann::json const report = {{"works", !is_broken}, {"findings", all}};
    std::printf("%s\n",
                report.dump(2, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
  }
  return is_broken ? 1 : 0;
}

}  // namespace tanada::command
