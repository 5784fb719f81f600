// URLs of etcd clusters.
#include <algorithm>
#include <charconv>

#include "backends/etcd/etcd_coordinator.hpp"
#include "core/base/log.hpp"

namespace tanada::backends {

namespace {

constexpr size_t url_size_max = 4096;
constexpr size_t cluster_name_size_max = 64;

bool is_cluster_name(std::string_view name) {
  return !name.empty() && name.size() <= cluster_name_size_max &&
         std::ranges::all_of(name, [](char letter) {
           return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                  (letter >= '0' && letter <= '9') || letter == '_' || letter == '-';
         });
}

bool is_host(std::string_view host, bool is_bracketed) {
  return !host.empty() && std::ranges::all_of(host, [is_bracketed](char letter) {
    bool const is_common = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                           (letter >= '0' && letter <= '9') || letter == '.' || letter == '-' ||
                           letter == '_';
    return is_common || (is_bracketed && (letter == ':' || letter == '%'));
  });
}

// HOST:PORT, or [ADDRESS]:PORT.
bool parse_endpoint(std::string_view text, etcd_endpoint &endpoint) {
  size_t const colon = text.rfind(':');
  if (colon == text.npos)
    return false;
  std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
  bool const is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_bracketed)
    host = host.substr(1, host.size() - 2);
  if (!is_host(host, is_bracketed))
    return false;
  endpoint.host = host;
  auto const [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  return error == std::errc{} && end == port.data() + port.size() && endpoint.port != 0;
}

}  // namespace

result<etcd_url> etcd_url_parse(std::string_view text) {
  etcd_url url;
  url.uses_tls = text.starts_with("etcds://");
  std::string_view rest = text;
  if (url.uses_tls || text.starts_with("etcd://"))
    rest.remove_prefix(text.find("//") + 2);
  size_t const slash = rest.find('/');
  if (rest.size() == text.size() || slash == rest.npos || text.size() > url_size_max)
    return fail(status::invalid, "'{}' is not a URL of the form etcd://HOST:PORT/NAME", text);
  url.cluster_name = rest.substr(slash + 1);
  if (!is_cluster_name(url.cluster_name))
    return fail(status::invalid,
                "the name of the cluster in '{}' must have 1 to {} letters, digits, '_' or '-'",
                text,
                cluster_name_size_max);
  rest = rest.substr(0, slash);
  for (size_t begin = 0; begin <= rest.size();) {
    size_t const end = std::min(rest.find(',', begin), rest.size());
    etcd_endpoint endpoint;
    if (!parse_endpoint(rest.substr(begin, end - begin), endpoint))
      return fail(status::invalid,
                  "'{}' in '{}' is not of the form HOST:PORT",
                  rest.substr(begin, end - begin),
                  text);
    url.endpoints.push_back(std::move(endpoint));
    begin = end + 1;
  }
  return url;
}

}  // namespace tanada::backends
