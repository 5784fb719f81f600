// seams/stream/socket_address.hpp: an IPv4 or IPv6 address with its port, without the system's
// headers.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/result.hpp"

namespace tanada::seams {

// Equal addresses have equal bytes, so that an address can be a key and be sent.
struct socket_address {
  enum class family_kind : uint8_t { unspecified = 0, ipv4 = 4, ipv6 = 6 };

  family_kind family = family_kind::unspecified;
  std::array<uint8_t, 16> bytes{};  // network order; the first 4 for IPv4
  uint16_t port = 0;
  uint32_t scope = 0;  // of a link-local IPv6 address: the interface

  auto operator<=>(const socket_address &) const = default;
};
static_assert(sizeof(socket_address) == 24);

struct socket_address_hash {
  size_t operator()(const socket_address &address) const noexcept;
};

// "127.0.0.1:4711", "[::1]:4711"; "none".
std::string to_text(const socket_address &address);

// From and to the system's sockaddr_in and sockaddr_in6, which need not be aligned. `size`:
// readable bytes, of which the family determines how many are read. invalid: another family, or too
// short.
inline constexpr size_t system_size_max = 28;
result<socket_address> socket_address_from(const void *system, size_t size);
size_t socket_address_to(const socket_address &address,
                         void *system,
                         size_t capacity);             // bytes written; 0: capacity too small
size_t system_size_of(const socket_address &address);  // bytes; 0: no family

// Parses a numeric address, or resolves a name (which may take as long as the resolver takes).
// invalid.
result<socket_address> socket_address_parse(const std::string &host, uint16_t port);

// The same for a host and a service, either of them null. family unspecified: any. is_passive: an
// address to listen at, if no host is given.
result<socket_address> socket_address_resolve(const char *host,
                                              const char *service,
                                              socket_address::family_kind family,
                                              bool is_passive);

}  // namespace tanada::seams
