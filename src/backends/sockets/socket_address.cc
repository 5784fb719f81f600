// backends/sockets/socket_address.cc: converts socket addresses from and to the system's format and
// text.
#include "seams/stream/socket_address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "core/base/log.hpp"

namespace tanada::seams {

static_assert(system_size_max == sizeof(sockaddr_in6));

using family_kind = socket_address::family_kind;

size_t socket_address_hash::operator()(const socket_address &address) const noexcept {
  uint64_t words[2];
  std::memcpy(words, address.bytes.data(), sizeof words);
  uint64_t mixed = words[0] ^ (words[1] * 0x9E3779B97F4A7C15u) ^ (uint64_t{address.port} << 48) ^
                   uint64_t(address.family);
  mixed = (mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93u;
  return mixed ^ (mixed >> 32);
}

std::string to_text(const socket_address &address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.family == family_kind::unspecified)
    return "none";
  bool const is_ipv4 = address.family == family_kind::ipv4;
  inet_ntop(is_ipv4 ? AF_INET : AF_INET6, address.bytes.data(), text, sizeof text);
  std::string const host = is_ipv4 ? text : "[" + std::string{text} + "]";
  return host + ":" + std::to_string(address.port);
}

result<socket_address> socket_address_from(const void *system, size_t size) {
  socket_address address;
  sa_family_t family = AF_UNSPEC;
  if (size >= sizeof family)
    std::memcpy(&family, system, sizeof family);
  if (family == AF_INET && size >= sizeof(sockaddr_in)) {
    sockaddr_in native;
    std::memcpy(&native, system, sizeof native);
    address.family = family_kind::ipv4;
    std::memcpy(address.bytes.data(), &native.sin_addr, sizeof native.sin_addr);
    address.port = ntohs(native.sin_port);
    return address;
  }
  if (family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
    sockaddr_in6 native;
    std::memcpy(&native, system, sizeof native);
    address.family = family_kind::ipv6;
    std::memcpy(address.bytes.data(), &native.sin6_addr, sizeof native.sin6_addr);
    address.port = ntohs(native.sin6_port);
    address.scope = native.sin6_scope_id;
    return address;
  }
  return status::invalid;
}

size_t socket_address_to(const socket_address &address, void *system, size_t capacity) {
  if (address.family == family_kind::ipv4 && capacity >= sizeof(sockaddr_in)) {
    sockaddr_in native{};
    native.sin_family = AF_INET;
    native.sin_port = htons(address.port);
    std::memcpy(&native.sin_addr, address.bytes.data(), sizeof native.sin_addr);
    std::memcpy(system, &native, sizeof native);
    return sizeof native;
  }
  if (address.family == family_kind::ipv6 && capacity >= sizeof(sockaddr_in6)) {
    sockaddr_in6 native{};
    native.sin6_family = AF_INET6;
    native.sin6_port = htons(address.port);
    native.sin6_scope_id = address.scope;
    std::memcpy(&native.sin6_addr, address.bytes.data(), sizeof native.sin6_addr);
    std::memcpy(system, &native, sizeof native);
    return sizeof native;
  }
  return 0;
}

size_t system_size_of(const socket_address &address) {
  switch (address.family) {
    case family_kind::ipv4:
      return sizeof(sockaddr_in);
    case family_kind::ipv6:
      return sizeof(sockaddr_in6);
    case family_kind::unspecified:
      break;
  }
  return 0;
}

result<socket_address> socket_address_resolve(const char *host,
                                              const char *service,
                                              family_kind family,
                                              bool is_passive) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = is_passive ? AI_PASSIVE : 0;
  hints.ai_family = family == family_kind::ipv4   ? AF_INET
                    : family == family_kind::ipv6 ? AF_INET6
                                                  : AF_UNSPEC;
  int const failed = getaddrinfo(host, service, &hints, &list);
  if (failed != 0)
    return fail(
        status::invalid, "{}: {}", host == nullptr ? "any address" : host, gai_strerror(failed));
  auto address = socket_address_from(list->ai_addr, list->ai_addrlen);
  freeaddrinfo(list);
  return address;
}

result<socket_address> socket_address_parse(const std::string &host, uint16_t port) {
  return socket_address_resolve(
      host.c_str(), std::to_string(port).c_str(), family_kind::unspecified, false);
}

}  // namespace tanada::seams
