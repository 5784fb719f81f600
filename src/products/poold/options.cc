// The daemon's settings from a TOML file and the environment.
#include "products/poold/options.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "core/base/settings.hpp"

namespace tanada::poold {
namespace {

status fail_setting(const std::string &where, const char *problem) {
  return fail(status::invalid, "{}: {}", where, problem);
}

// Keys of the file. Flags and environment variables have the same names.
constexpr std::string_view keys[] = {"listen",
                                     "port",
                                     "size",
                                     "segment_size",
                                     "prefault",
                                     "backing",
                                     "journal",
                                     "key_file",
                                     "fabric",
                                     "open",
                                     "fabric_node",
                                     "workers",
                                     "clients",
                                     "cluster",
                                     "new_cluster",
                                     "advertise",
                                     "domain",
                                     "copies",
                                     "stripe",
                                     "lease",
                                     "repair_bandwidth",
                                     "protocol",
                                     "etcd_ca",
                                     "etcd_certificate",
                                     "etcd_key",
                                     "etcd_user",
                                     "etcd_password_file",
                                     "web",
                                     "web_port",
                                     "log_size",
                                     "port_file",
                                     "drain",
                                     "lost_after",
                                     "ring_poll",
                                     "write_behind",
                                     "web_listen",
                                     "web_token_file",
                                     "log"};

status fail_unknown(const std::string &key, const std::string &where) {
  std::string const nearest{nearest_name(key, keys)};
  return fail_setting(where, ("there is no such setting; the nearest is " + nearest).c_str());
}

// Where a setting was found, for messages, and its text.
struct setting_source {
  const std::string &text, &where;
};

template <class Number>
status set_count(const setting_source &source, uint64_t low, uint64_t high, Number &target) {
  auto parsed = parse_count(source.text, low, high);
  if (!parsed.ok())
    return fail_setting(
        source.where,
        ("a number from " + std::to_string(low) + " to " + std::to_string(high)).c_str());
  target = Number(parsed.value());
  return status::ok;
}

status set_value(const setting_source &source, std::string &target) {
  target = source.text;
  return status::ok;
}

status set_value(const setting_source &source, bool &target) {
  if (source.text != "true" && source.text != "false")
    return fail_setting(source.where, "true or false");
  target = source.text == "true";
  return status::ok;
}

status set_size(const setting_source &source, uint64_t &target) {
  auto parsed = parse_size(source.text);
  if (!parsed.ok())
    return fail_setting(source.where, "a size, such as 64GiB");
  target = parsed.value();
  return status::ok;
}

status set_duration(const setting_source &source, uint64_t &target) {
  auto parsed = parse_duration_ns(source.text);
  if (!parsed.ok())
    return fail_setting(source.where, "a duration, such as 10s");
  target = parsed.value();
  return status::ok;
}

status set_web_port(const setting_source &source, daemon_options &options) {
  options.web = true;
  return set_count(source, 0, UINT16_MAX, options.web_port);
}

// The options by the type of their values.
struct text_option {
  std::string_view key;
  std::string daemon_options::*target;
};
constexpr text_option text_options[] = {{"listen", &daemon_options::listen},
                                        {"backing", &daemon_options::backing},
                                        {"journal", &daemon_options::journal},
                                        {"fabric", &daemon_options::fabric},
                                        {"fabric_node", &daemon_options::fabric_node},
                                        {"key_file", &daemon_options::key_file},
                                        {"cluster", &daemon_options::cluster},
                                        {"advertise", &daemon_options::advertise},
                                        {"domain", &daemon_options::domain},
                                        {"etcd_ca", &daemon_options::etcd_ca},
                                        {"etcd_certificate", &daemon_options::etcd_certificate},
                                        {"etcd_key", &daemon_options::etcd_key},
                                        {"etcd_user", &daemon_options::etcd_user},
                                        {"etcd_password_file", &daemon_options::etcd_password_file},
                                        {"web_listen", &daemon_options::web_listen},
                                        {"web_token_file", &daemon_options::web_token_file},
                                        {"log", &daemon_options::log},
                                        {"port_file", &daemon_options::port_file}};

struct truth_option {
  std::string_view key;
  bool daemon_options::*target;
};
constexpr truth_option truth_options[] = {{"prefault", &daemon_options::prefault},
                                          {"open", &daemon_options::is_open},
                                          {"new_cluster", &daemon_options::is_new_cluster},
                                          {"web", &daemon_options::web}};

struct amount_option {
  std::string_view key;
  uint64_t daemon_options::*target;
  status (*set)(const setting_source &source, uint64_t &target);
};
constexpr amount_option amount_options[] = {
    {"size", &daemon_options::size, set_size},
    {"segment_size", &daemon_options::segment_size, set_size},
    {"log_size", &daemon_options::log_size, set_size},
    {"stripe", &daemon_options::stripe_size, set_size},
    {"repair_bandwidth", &daemon_options::repair_bandwidth, set_size},
    {"drain", &daemon_options::drain_ns, set_duration},
    {"lost_after", &daemon_options::lost_after_ns, set_duration},
    {"lease", &daemon_options::lease_ns, set_duration},
    {"ring_poll", &daemon_options::ring_poll_ns, set_duration},
    {"write_behind", &daemon_options::write_behind_ns, set_duration}};

// Besides these, there are the counts: port, web_port, workers, clients, copies and protocol.
static_assert(std::size(text_options) + std::size(truth_options) + std::size(amount_options) + 6 ==
              std::size(keys));

// Set one option from its text in the file or the environment.
status set_option(daemon_options &options,
                  const std::string &key,
                  const std::string &text,
                  const std::string &where) {
  setting_source const source{text, where};
  for (auto const &option : text_options)
    if (option.key == key)
      return set_value(source, options.*option.target);
  for (auto const &option : truth_options)
    if (option.key == key)
      return set_value(source, options.*option.target);
  for (auto const &option : amount_options)
    if (option.key == key)
      return option.set(source, options.*option.target);
  if (key == "port")
    return set_count(source, 0, UINT16_MAX, options.port);
  if (key == "web_port")
    return set_web_port(source, options);
  if (key == "workers")
    return set_count(source, 0, 256, options.worker_count);
  if (key == "clients")
    return set_count(source, 1, 65536, options.client_count_max);
  if (key == "copies")
    return set_count(source, 1, 3, options.copies);
  if (key == "protocol")
    return set_count(
        source, wire::pool::protocol_version_min, wire::pool::protocol_version, options.protocol);
  return fail_unknown(key, where);
}

std::string text_of(const toml::node &node) {
  if (auto const text = node.value<std::string>(); node.is_string() && text)
    return *text;
  if (auto const truth = node.value<bool>(); node.is_boolean() && truth)
    return *truth ? "true" : "false";
  if (auto const number = node.value<int64_t>(); node.is_integer() && number)
    return std::to_string(*number);
  return {};
}

status read_quotas(const toml::table &table, const std::string &path, daemon_options &options) {
  for (auto &&[name, node] : table) {
    std::string const key{name.str()};
    auto size = parse_size(text_of(node));
    if (!size.ok())
      return fail_setting(path + ", quotas." + key, "a size, such as 64GiB");
    options.quotas[key] = size.value();
  }
  return status::ok;
}

}  // namespace

status read_toml(const std::string &path, daemon_options &options) {
  try {
    toml::table const table = toml::parse_file(path);
    for (auto &&[name, node] : table) {
      std::string const key{name.str()};
      std::string const where =
          path + ", line " + std::to_string(node.source().begin.line) + ", " + key;
      if (key == "quotas" && node.is_table())
        TND_TRY(read_quotas(*node.as_table(), path, options));
      else if (std::find(std::begin(keys), std::end(keys), key) == std::end(keys))
        return fail_unknown(key, where);
      else if (node.is_table() || node.is_array())
        return fail_setting(where, "a single value");
      else
        TND_TRY(set_option(options, key, text_of(node), where));
    }
    return status::ok;
  } catch (const toml::parse_error &error) {
    return fail(
        status::invalid, "{}, line {}: {}", path, error.source().begin.line, error.description());
  }
}

status read_environment(daemon_options &options) {
  TND_TRY(settings_check());
  for (std::string_view const key : keys) {
    std::string name = "TND_POOLD_";
    for (char const letter : key)
      name += char(std::toupper(letter));
    const char *const text = std::getenv(name.c_str());
    if (text != nullptr && *text != 0)
      TND_TRY(set_option(options, std::string{key}, text, name));
  }
  return status::ok;
}

}  // namespace tanada::poold
