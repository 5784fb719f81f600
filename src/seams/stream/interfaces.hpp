// seams/stream/interfaces.hpp: the addresses of this node.
#pragma once

#include <string>
#include <vector>

#include "seams/stream/socket_address.hpp"

namespace tanada::seams {

struct interface_address {
  socket_address address;  // port 0
  std::string interface;   // "eth0"
};

// Addresses of interfaces that are up: IPv4 before IPv6, without link-local ones, and without
// loopback where there is another. With `filter` (an interface, or an address) all those that it
// names, and no others.
std::vector<interface_address> interface_addresses(const char *filter, bool with_loopback);

// The address from which the system would send to `target`. Its family is unspecified if there is
// no route.
socket_address source_address_for(const socket_address &target);

}  // namespace tanada::seams
