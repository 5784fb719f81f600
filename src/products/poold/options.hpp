// products/poold/options.hpp: the daemon's settings: flags win over the environment, that over the
// file.
#pragma once

#include <tanada/pool.h>

#include <map>
#include <string>

#include "core/base/result.hpp"
#include "products/poold/server.hpp"
#include "products/poold/space.hpp"

namespace tanada::poold {

struct daemon_options {
  std::string listen = "127.0.0.1";
  uint16_t port = TND_POOL_DEFAULT_PORT;
  uint64_t size = uint64_t{1} << 30;
  uint64_t segment_size = uint64_t{64} << 20;
  bool prefault = true;
  std::string backing = "dram";  // dram | file:PATH | flash:DIR
  std::string key_file;
  bool is_open = false;                                 // without keys: for all users of this node
  uint64_t lost_after_ns = port::stream_lost_after_ns;  // see server_options
  std::string fabric, fabric_node;  // libfabric provider, and the interface; empty: none
  uint32_t worker_count = 0, client_count_max = 4096;
  uint16_t web_port = 0;  // 0: none
  bool web = false;
  uint64_t drain_ns = 10'000'000'000;
  // How long a stop may write commits that nobody waits for.
  uint64_t write_behind_ns = 60'000'000'000;
  uint64_t log_size = 0;  // flash: bytes; 0: four times the size
  std::string port_file;  // gets "PORT [WEB_PORT]" once the daemon serves
  std::map<std::string, uint64_t> quotas;

  bool operator==(const daemon_options &) const = default;
};

// Over what is there already. no_entry, invalid: the message names file, line and key.
status read_toml(const std::string &path, daemon_options &options);
status read_environment(daemon_options &options);

}  // namespace tanada::poold
