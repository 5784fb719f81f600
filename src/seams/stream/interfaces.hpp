// seams/stream/interfaces.hpp: the addresses of this node.
#pragma once

#include <string>
#include <vector>

#include "seams/stream/socket_address.hpp"

namespace tanada::port {

struct interface_address {
  socket_address address;  // port 0
  std::string interface;   // "eth0"
};

// Those of interfaces that are up: IPv4 before IPv6, link-local ones left out, and loopback where
// there is another. With `wanted` (an interface, or an address) only those that it names, all of
// them.
std::vector<interface_address> interface_addresses(const char *wanted, bool with_loopback);

// The address from which the system would send to `to`; family none when there is no way.
socket_address source_towards(const socket_address &to);

}  // namespace tanada::port
