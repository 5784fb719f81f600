// backends/linux/interfaces.cc: addresses of the network interfaces.
#include "seams/stream/interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tanada::seams {

namespace {

bool is_named_by(const char *wanted_name, const interface_address &address) {
  std::string const text = to_text(address.address);
  return address.interface == wanted_name || text == std::string{wanted_name} + ":0" ||
         text == "[" + std::string{wanted_name} + "]:0";
}

}  // namespace

std::vector<interface_address> interface_addresses(const char *wanted_name, bool with_loopback) {
  std::vector<interface_address> addresses, loopback;
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) != 0)
    return addresses;
  for (int const family : {AF_INET, AF_INET6})
    for (ifaddrs *entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family ||
          (entry->ifa_flags & IFF_UP) == 0)
        continue;
      auto address = socket_address_from(entry->ifa_addr, system_size_max);
      if (!address.ok())
        continue;
      interface_address const candidate{std::move(address).value(), entry->ifa_name};
      bool const is_link_local = candidate.address.scope != 0;
      if (is_link_local || (wanted_name != nullptr && !is_named_by(wanted_name, candidate)))
        continue;
      bool const is_last = wanted_name == nullptr && (entry->ifa_flags & IFF_LOOPBACK) != 0;
      (is_last ? loopback : addresses).push_back(candidate);
    }
  freeifaddrs(list);
  if (addresses.empty() || with_loopback)
    addresses.insert(addresses.end(), loopback.begin(), loopback.end());
  return addresses;
}

socket_address source_address_for(const socket_address &target) {
  sockaddr_storage system{};
  socklen_t size = socklen_t(socket_address_to(target, &system, sizeof system));
  socket_address source;
  int const probe = size == 0 ? -1 : socket(system.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0)
    return source;
  if (connect(probe, reinterpret_cast<sockaddr *>(&system), size) ==
      0) {  // a datagram socket: nothing is sent
    size = sizeof system;
    if (getsockname(probe, reinterpret_cast<sockaddr *>(&system), &size) == 0) {
      auto address = socket_address_from(&system, size);
      if (address.ok())
        source = std::move(address).value();
    }
  }
  ::close(probe);
  source.port = 0;
  return source;
}

}  // namespace tanada::seams
