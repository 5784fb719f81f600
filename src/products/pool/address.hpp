// products/pool/address.hpp: pool://host[:port][,host[:port]...]/namespace[/object].
#pragma once

#include <tanada/pool.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "seams/stream/stream.hpp"

namespace tanada::pool {

struct server_place {
  std::string host;
  uint16_t port = TND_POOL_DEFAULT_PORT;

  bool operator==(const server_place &) const = default;
};

struct address {
  std::string host;
  uint16_t port = TND_POOL_DEFAULT_PORT;
  std::string space;                      // namespace
  std::string object;                     // may be empty
  std::vector<server_place> others = {};  // further servers of a cluster
};

// "host:port" or "[host]:port". invalid: the text is not such an address.
result<server_place> place_parse(std::string_view text);

// "host:port" or "[host]:port".
std::string place_text(const server_place &place);

// `invalid`, with a message that describes the error. `needs_space` false: the namespace may be
// empty.
result<address> address_parse(std::string_view url, bool needs_space = true);

// pool://host:port[,host:port...]/namespace, without the object.
std::string space_url(const address &location);

// Connects to "host:port" or "[host]:port".
result<std::unique_ptr<seams::stream>> dial_address(const std::string &text, uint64_t deadline_ns);

// The name, in the abstract namespace, of the UNIX socket that belongs to a TCP port.
std::string unix_name(uint16_t port);

}  // namespace tanada::pool
