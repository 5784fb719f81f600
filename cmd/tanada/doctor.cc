// cmd/tanada/doctor.cc: tanada doctor: reports what works on this machine.
#include <tanada/pool.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "core/base/log.hpp"
#include "core/base/message.hpp"
#include "observe/probes/probes.hpp"
#include "products/pool/auth.hpp"
#include "products/pool/path_name.hpp"

namespace tanada::command {

namespace {

using observe::finding;
using observe::finding_state;

// What to do about a pool that does not answer, or refuses this user.
const char *pool_remedy(tnd_status code) {
  switch (tanada::status(code)) {
    case tanada::status::access:
      return "name a file with one of the daemon's keys by TND_POOL_KEY_FILE; a daemon without "
             "keys serves only its own user and root, unless it is started with --open";
    case tanada::status::timed_out:
      return "see whether a firewall drops packets to its port, and whether the host is up";
    case tanada::status::invalid:
      return "give pool://host[:port]/namespace";
    default:
      return "start tanada-poold there (tanada status shows those of this machine), and use its "
             "host and port";
  }
}

// Checks the key, if one is set, and the daemon, if one is given.
std::vector<finding> probe_pool(const std::string &url) {
  std::vector<finding> findings;
  const char *const key_file = std::getenv("TND_POOL_KEY_FILE");
  if (key_file != nullptr && *key_file != '\0') {
    auto keys = pool::keys_read(key_file);
    bool const is_good = keys.ok() && keys.value().size() == 1;
    std::string const reason =
        keys.ok() ? "the file has several keys; a client needs exactly one" : last_message();
    if (is_good) {
      findings.push_back({"pool key", finding_state::good, key_file, {}});
    } else {
      findings.push_back({"pool key",
                          finding_state::broken,
                          reason,
                          "a file with one line of tanada pool key new, chmod 600"});
    }
  }
  if (url.empty()) {
    findings.push_back(
        {"pool", finding_state::good, "not tested: give --pool pool://host/namespace", {}});
    return findings;
  }
  tnd_pool_config config = TND_POOL_CONFIG_INIT;
  config.timeout_ns = 5'000'000'000;
  tnd_pool *connected = nullptr;
  tnd_pool_connection connection{};
  connection.struct_size = sizeof connection;
  tnd_status code = tnd_pool_connect(url.c_str(), &config, &connected);
  if (code == TND_OK)
    code = tnd_pool_get_connection(connected, &connection);
  if (code == TND_OK) {
    findings.push_back({"pool",
                        finding_state::good,
                        url + " answers; path: " + pool::path_name(connection.path),
                        {}});
  } else {
    findings.push_back(
        {"pool", finding_state::broken, url + ": " + tnd_last_message(), pool_remedy(code)});
  }
  tnd_pool_disconnect(connected);
  return findings;
}

}  // namespace

int doctor(const doctor_options &options) {
  static constexpr const char *words[] = {"ok", "lacking", "broken"};
  message_silence const silence;  // the findings have the messages
  auto findings = observe::probe_all({});
  for (finding &part : probe_pool(options.pool))
    findings.push_back(std::move(part));
  bool is_broken = false;
  nlohmann::json list = nlohmann::json::array();
  for (observe::finding const &item : findings) {
    is_broken |= item.state == observe::finding_state::broken;
    const char *const word = words[size_t(item.state)];
    if (options.json) {
      list.push_back(
          {{"topic", item.topic}, {"state", word}, {"text", item.text}, {"remedy", item.remedy}});
    } else {
      std::string const remedy = item.remedy.empty() ? std::string{} : "  [" + item.remedy + "]";
      std::printf("%-8s %-14s %s%s\n", word, item.topic, item.text.c_str(), remedy.c_str());
    }
  }
  if (options.json) {
    nlohmann::json const report = {{"works", !is_broken}, {"findings", list}};
    std::printf("%s\n",
                report.dump(2, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
  }
  return is_broken ? 1 : 0;
}

}  // namespace tanada::command
