// The daemon's settings from a TOML file and the environment.
#include "products/poold/options.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "core/base/settings.hpp"

namespace tanada::poold {
namespace {

status fail_setting(const std::string &where, const char *problem) {
  return fail(status::invalid, "%s: %s", where.c_str(), problem);
}

// Keys of the file. Flags and environment variables have the same names.
constexpr std::string_view keys[] = {
    "listen",   "port",      "size",        "segment_size", "prefault",    "backing", "key_file",
    "fabric",   "open",      "fabric_node", "workers",      "clients",     "web",     "web_port",
    "log_size", "port_file", "drain",       "lost_after",   "write_behind"};

status fail_unknown(const std::string &key, const std::string &where) {
  std::string const nearest{nearest_name(key, keys)};
  return fail_setting(where, ("there is no such setting; the nearest is " + nearest).c_str());
}

// Set one option from its text in the file or the environment.
status set_option(daemon_options &options, const std::string &key, const std::string &text,
                  const std::string &where) {
  auto const count = [&](uint64_t low, uint64_t high, auto &target) {
    auto parsed = parse_count(text, low, high);
    if (!parsed.ok())
      return fail_setting(
          where, ("a number from " + std::to_string(low) + " to " + std::to_string(high)).c_str());
    target = std::remove_reference_t<decltype(target)>(parsed.value());
    return status::ok;
  };
  auto const size = [&](uint64_t &target) {
    auto parsed = parse_size(text);
    if (!parsed.ok())
      return fail_setting(where, "a size, such as 64GiB");
    target = parsed.value();
    return status::ok;
  };
  auto const truth = [&](bool &target) {
    if (text != "true" && text != "false")
      return fail_setting(where, "true or false");
    target = text == "true";
    return status::ok;
  };
  if (key == "listen") {
    options.listen = text;
    return status::ok;
  }
  if (key == "port")
    return count(0, UINT16_MAX, options.port);
  if (key == "size")
    return size(options.size);
  if (key == "segment_size")
    return size(options.segment_size);
  if (key == "prefault")
    return truth(options.prefault);
  if (key == "backing") {
    options.backing = text;
    return status::ok;
  }
  if (key == "fabric") {
    options.fabric = text;
    return status::ok;
  }
  if (key == "fabric_node") {
    options.fabric_node = text;
    return status::ok;
  }
  if (key == "key_file") {
    options.key_file = text;
    return status::ok;
  }
  if (key == "open")
    return truth(options.is_open);
  if (key == "workers")
    return count(0, 256, options.worker_count);
  if (key == "clients")
    return count(1, 65536, options.client_count_max);
  if (key == "web")
    return truth(options.web);
  if (key == "web_port") {
    options.web = true;
    return count(0, UINT16_MAX, options.web_port);
  }
  if (key == "log_size")
    return size(options.log_size);
  if (key == "port_file") {
    options.port_file = text;
    return status::ok;
  }
  auto const duration = [&](uint64_t &target) {
    auto parsed = parse_duration_ns(text);
    if (!parsed.ok())
      return fail_setting(where, "a duration, such as 10s");
    target = parsed.value();
    return status::ok;
  };
  if (key == "drain")
    return duration(options.drain_ns);
  if (key == "lost_after")
    return duration(options.lost_after_ns);
  if (key == "write_behind")
    return duration(options.write_behind_ns);
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
    return fail(status::invalid, "%s, line %u: %s", path.c_str(),
                unsigned(error.source().begin.line), std::string{error.description()}.c_str());
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
