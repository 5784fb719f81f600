#include "seams/stream/socket_address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "core/base/log.hpp"

namespace tanada::port {

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
  if (address.family == family_kind::none)
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
    sockaddr_in from;
    std::memcpy(&from, system, sizeof from);
    address.family = family_kind::ipv4;
    std::memcpy(address.bytes.data(), &from.sin_addr, sizeof from.sin_addr);
    address.port = ntohs(from.sin_port);
    return address;
  }
  if (family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
    sockaddr_in6 from;
    std::memcpy(&from, system, sizeof from);
    address.family = family_kind::ipv6;
    std::memcpy(address.bytes.data(), &from.sin6_addr, sizeof from.sin6_addr);
    address.port = ntohs(from.sin6_port);
    address.scope = from.sin6_scope_id;
    return address;
  }
  return status::invalid;
}

size_t socket_address_to(const socket_address &address, void *system, size_t capacity) {
  if (address.family == family_kind::ipv4 && capacity >= sizeof(sockaddr_in)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    std::memcpy(&to.sin_addr, address.bytes.data(), sizeof to.sin_addr);
    std::memcpy(system, &to, sizeof to);
    return sizeof to;
  }
  if (address.family == family_kind::ipv6 && capacity >= sizeof(sockaddr_in6)) {
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(address.port);
    to.sin6_scope_id = address.scope;
    std::memcpy(&to.sin6_addr, address.bytes.data(), sizeof to.sin6_addr);
    std::memcpy(system, &to, sizeof to);
    return sizeof to;
  }
  return 0;
}

size_t system_size_of(const socket_address &address) {
  switch (address.family) {
    case family_kind::ipv4: return sizeof(sockaddr_in);
    case family_kind::ipv6: return sizeof(sockaddr_in6);
    case family_kind::none: break;
  }
  return 0;
}

result<socket_address> socket_address_resolve(const char *host, const char *service,
                                              family_kind family, bool is_passive) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = is_passive ? AI_PASSIVE : 0;
  hints.ai_family = family == family_kind::ipv4   ? AF_INET
                    : family == family_kind::ipv6 ? AF_INET6
                                                  : AF_UNSPEC;
  int const failed = getaddrinfo(host, service, &hints, &found);
  if (failed != 0)
    return fail(status::invalid, "%s: %s", host == nullptr ? "any address" : host,
                gai_strerror(failed));
  auto address = socket_address_from(found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return address;
}

result<socket_address> socket_address_parse(const std::string &host, uint16_t port) {
  return socket_address_resolve(host.c_str(), std::to_string(port).c_str(), family_kind::none,
                                false);
}

}  // namespace tanada::port
