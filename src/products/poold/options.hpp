// products/poold/options.hpp: the daemon's settings. Flags override the environment, which
// overrides the file.
#pragma once

#include <tanada/pool.h>

#include <map>
#include <string>

#include "core/base/result.hpp"
#include "core/wire/pool.hpp"
#include "products/poold/server.hpp"
#include "products/poold/pool_memory.hpp"

namespace tanada::poold {

struct daemon_options {
  std::string listen = "127.0.0.1";
  uint16_t port = TND_POOL_DEFAULT_PORT;
  uint64_t size = uint64_t{1} << 30;
  uint64_t segment_size = uint64_t{64} << 20;
  bool prefault = true;
  std::string backing = "dram";  // dram | file:PATH | flash:DIR
  std::string journal;           // folder of the journal of file:PATH; empty: PATH.journal
  std::string key_file;
  bool is_open = false;  // without keys: admit all users of this node
  uint64_t lost_after_ns = backends::stream_lost_after_ns;  // see server_options
  std::string fabric, fabric_node;  // libfabric provider, and the interface; empty: no fabric
  uint32_t worker_count = 0, client_count_max = 4096;
  uint16_t web_port = 0;  // 0: any free port
  bool web = false;
  std::string web_listen = "127.0.0.1";  // another address needs a token
  std::string web_token_file;            // empty: no token
  std::string log = "text";              // or "json"
  uint64_t drain_ns = 10'000'000'000;
  // How long a stop may write commits that no client waits for.
  uint64_t write_behind_ns = 60'000'000'000;
  // How long a worker polls the ring of a client of this node after a request; 0: no rings.
  uint64_t ring_poll_ns = session_limits{}.ring_poll_ns;
  uint64_t log_size = 0;  // flash: bytes of the log; 0: four times `size`
  // A cluster: "etcd://HOST:PORT,HOST:PORT/NAME", or etcds:// with TLS; empty: a pool of one
  // server.
  std::string cluster;
  std::string advertise;  // "HOST:PORT", where clients and other servers reach it; empty: as listen
  bool is_new_cluster = false;                // may make one of objects that belong to another
  std::string domain;                         // failure domain; empty: one of its own
  uint32_t copies = 2;                        // of a new cluster's objects
  uint64_t stripe_size = uint64_t{64} << 20;  // larger objects are striped; 0: none
  uint64_t lease_ns = 5'000'000'000;
  uint64_t repair_bandwidth = 0;                     // bytes a second; 0: see repair_budget
  uint32_t protocol = wire::pool::protocol_version;  // the newest version of it that is used
  std::string etcd_ca, etcd_certificate, etcd_key, etcd_user, etcd_password_file;
  std::string port_file;  // "PORT [WEB_PORT]" is written to it once the daemon serves
  std::map<std::string, uint64_t> quotas;

  bool operator==(const daemon_options &) const = default;
};

// Override the settings in `options`. no_entry: the file does not exist. invalid: a setting is
// unknown or malformed; the message names the file, line and key, or the variable.
status read_toml(const std::string &path, daemon_options &options);
status read_environment(daemon_options &options);

}  // namespace tanada::poold
