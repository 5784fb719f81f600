// products/pool/address.hpp: pool://host[:port]/namespace[/object].
#pragma once

#include <tanada/pool.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace tanada::pool {

struct address {
  std::string host;
  uint16_t port = TND_POOL_DEFAULT_PORT;
  std::string space;   // namespace
  std::string object;  // may be empty
};

// `invalid`, with a message that describes the error. `needs_space` false: the namespace may be
// empty.
result<address> address_parse(std::string_view url, bool needs_space = true);

// pool://host:port/namespace, without the object.
std::string space_url(const address &location);

// The name, in the abstract namespace, of the UNIX socket that belongs to a TCP port.
std::string unix_name(uint16_t port);

}  // namespace tanada::pool
