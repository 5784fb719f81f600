#include "seams/stream/interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tanada::port {

namespace {

bool names(const char *wanted, const interface_address &address) {
  std::string const text = to_text(address.address);
  return address.interface == wanted || text == std::string{wanted} + ":0" ||
         text == "[" + std::string{wanted} + "]:0";
}

}  // namespace

std::vector<interface_address> interface_addresses(const char *wanted, bool with_loopback) {
  std::vector<interface_address> found, loopback;
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) != 0)
    return found;
  for (int const family : {AF_INET, AF_INET6})
    for (ifaddrs *at = list; at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != family ||
          (at->ifa_flags & IFF_UP) == 0)
        continue;
      auto address = socket_address_from(at->ifa_addr, system_size_max);
      if (!address.ok())
        continue;
      interface_address const each{std::move(address).value(), at->ifa_name};
      bool const is_link_local = each.address.scope != 0;
      if (is_link_local || (wanted != nullptr && !names(wanted, each)))
        continue;
      bool const is_last = wanted == nullptr && (at->ifa_flags & IFF_LOOPBACK) != 0;
      (is_last ? loopback : found).push_back(each);
    }
  freeifaddrs(list);
  if (found.empty() || with_loopback)
    found.insert(found.end(), loopback.begin(), loopback.end());
  return found;
}

socket_address source_towards(const socket_address &to) {
  sockaddr_storage system{};
  socklen_t size = socklen_t(socket_address_to(to, &system, sizeof system));
  socket_address found;
  int const probe = size == 0 ? -1 : socket(system.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0)
    return found;
  if (connect(probe, reinterpret_cast<sockaddr *>(&system), size) ==
      0) {  // of a datagram socket: nothing is sent
    size = sizeof system;
    if (getsockname(probe, reinterpret_cast<sockaddr *>(&system), &size) == 0) {
      auto address = socket_address_from(&system, size);
      if (address.ok())
        found = std::move(address).value();
    }
  }
  ::close(probe);
  found.port = 0;
  return found;
}

}  // namespace tanada::port
