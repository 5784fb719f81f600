// Parses URLs of pools, and names the daemon's UNIX socket.
#include "products/pool/address.hpp"

#include "backends/sockets/socket_stream.hpp"
#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "core/wire/pool.hpp"

namespace tanada::pool {
namespace {

status refuse(std::string_view url, const char *why) {
  return fail(status::invalid, "{}: {}: give pool://host[:port]/namespace/object", url, why);
}

// Parses host[:port], where the host may be an IPv6 address in brackets.
status parse_host(std::string_view url, std::string_view host, server_place &parsed) {
  size_t const bracket = host.starts_with('[') ? host.find(']') : 0;
  if (bracket == std::string_view::npos)
    return refuse(url, "no ] after the address");
  if (size_t const colon = host.find(':', bracket); colon != std::string_view::npos) {
    auto port = parse_count(host.substr(colon + 1), 1, UINT16_MAX);
    if (!port.ok())
      return refuse(url, "the port is not a number from 1 to 65535");
    parsed.port = uint16_t(port.value());
    host = host.substr(0, colon);
  }
  parsed.host = bracket > 0 ? host.substr(1, bracket - 1) : host;
  return parsed.host.empty() ? refuse(url, "no host") : status::ok;
}

// Parses the servers, which commas separate.
status parse_hosts(std::string_view url, std::string_view hosts, address &parsed) {
  for (bool is_first = true;; is_first = false) {
    size_t const comma = hosts.find(',');
    server_place place;
    TND_TRY(parse_host(url, hosts.substr(0, comma), place));
    if (is_first) {
      parsed.host = std::move(place.host);
      parsed.port = place.port;
    } else {
      parsed.others.push_back(std::move(place));
    }
    if (comma == std::string_view::npos)
      return status::ok;
    hosts = hosts.substr(comma + 1);
  }
}

}  // namespace

result<server_place> place_parse(std::string_view text) {
  server_place place;
  TND_TRY(parse_host(text, text, place));
  return place;
}

result<std::unique_ptr<seams::stream>> dial_address(const std::string &text, uint64_t deadline_ns) {
  auto const place = place_parse(text);
  if (!place.ok())
    return place.error();
  return backends::tcp_connect(place.value().host, place.value().port, deadline_ns);
}

result<address> address_parse(std::string_view url, bool needs_space) {
  constexpr std::string_view scheme = "pool://";
  if (!url.starts_with(scheme))
    return refuse(url, "not a pool's URL");
  std::string_view rest = url.substr(scheme.size());
  size_t const slash = rest.find('/');
  std::string_view const host = rest.substr(0, slash);
  rest = slash == std::string_view::npos ? std::string_view{} : rest.substr(slash + 1);
  address parsed;
  TND_TRY(parse_hosts(url, host, parsed));
  size_t const end = rest.find('/');
  parsed.space = rest.substr(0, end);
  bool const may_lack_space = !needs_space && rest.empty();
  if (!may_lack_space && !wire::pool::is_valid_name(parsed.space))
    return refuse(url, "no namespace, or a name longer than 512 bytes");
  if (end != std::string_view::npos)
    parsed.object = rest.substr(end + 1);
  if (!parsed.object.empty() && !wire::pool::is_valid_name(parsed.object))
    return refuse(url, "a name longer than 512 bytes");
  return parsed;
}

std::string place_text(const server_place &place) {
  bool const is_v6 = place.host.find(':') != std::string::npos;
  return (is_v6 ? "[" + place.host + "]" : place.host) + ":" + std::to_string(place.port);
}

std::string space_url(const address &location) {
  std::string url = "pool://" + place_text({location.host, location.port});
  for (const server_place &place : location.others)
    url += "," + place_text(place);
  return url + "/" + location.space;
}

std::string unix_name(uint16_t port) {
  return "tanada-pool-" + std::to_string(port);
}

}  // namespace tanada::pool
