// backends/etcd/etcd_coordinator.hpp: seams::coordinator on the JSON gateway of etcd 3.4 and later.
// It is in a separate library, tanada_backends_etcd, which libtanada.so does not need.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "seams/coordination/coordinator.hpp"

namespace tanada::backends {

struct etcd_endpoint {
  std::string host;  // a name or an address, without brackets
  uint16_t port = 0;
};

struct etcd_url {
  std::vector<etcd_endpoint> endpoints;
  bool uses_tls = false;
  std::string cluster_name;
};

// Parses "etcd://HOST:PORT,HOST:PORT/NAME", or "etcds://" for TLS. An address of IPv6 is in
// brackets. The name has 1 to 64 letters, digits, "_" and "-". invalid: the text is not such a URL.
result<etcd_url> etcd_url_parse(std::string_view text);

struct etcd_options {
  std::vector<etcd_endpoint> endpoints;  // members of one cluster
  bool uses_tls = false;
  std::string ca_file;           // empty: the system's certificates
  std::string certificate_file;  // of this client; empty: none
  std::string key_file;          // of the certificate
  std::string user;              // empty: no authentication
  std::string password;
  uint64_t request_timeout_ns = 3'000'000'000;
};

/**
 * A client of an etcd cluster. It has threads of its own for requests, renewals of leases, the
 * watch, and a check of the watch's member.
 *
 * A request goes to the member that answered last. If a member fails, the next one is tried, unless
 * the failed member may have applied the request. A watch whose connection or member is silently
 * dead ends within 10 s. Answers of more than 32 MiB are refused with too_big.
 *
 * The destructor aborts what is under way. It may wait for a look-up of a host name by the system.
 *
 * **Returns** invalid: there is no endpoint, or a file of the options cannot be used.
 */
result<std::unique_ptr<seams::coordinator>> etcd_coordinator_create(const etcd_options &options);

}  // namespace tanada::backends
