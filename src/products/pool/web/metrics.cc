// Prometheus text format 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
#include <tanada/version.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "products/pool/web/report.hpp"

namespace tanada::pool {
namespace {

bool is_utf8(const std::string &text) {
  // nlohmann::json has the only check in this tree: a strict dump throws at what is none.
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception &) {
    return false;
  }
}

// "label values can be any sequence of UTF-8 characters, but the backslash, double-quote, and line
// feed characters have to be escaped". Names of namespaces are bytes: of one that is no UTF-8,
// bytes behind ASCII are shown as \xHH.
std::string escaped(const std::string &text) {
  bool const shows_bytes = !is_utf8(text);
  std::string value;
  for (char const each : text) {
    if (each == '\\' || each == '"') {
      value += '\\';
      value += each;
    } else if (each == '\n')
      value += "\\n";
    else if (auto const byte = static_cast<unsigned char>(each); shows_bytes && byte >= 0x80) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\\\x%02X", byte);
      value += hex;
    } else
      value += each;
  }
  return value;
}

// The page of metrics under construction. A family's samples stand together, under one HELP and one
// TYPE.
class metrics_text {
 public:
  void family(const char *name, const char *type, const char *help) {
    name_ = std::string("tanada_pool_") + name;
    text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
  }
  void sample(uint64_t value, const std::string &labels = {}) {
    sample(std::to_string(value), labels);
  }
  void sample(const std::string &value, const std::string &labels = {}) {
    text_ += name_ + (labels.empty() ? "" : "{" + labels + "}") + " " + value + "\n";
  }
  void gauge(const char *name, const char *help, uint64_t value) {
    family(name, "gauge", help);
    sample(value);
  }
  void counter(const char *name, const char *help, uint64_t value) {
    family(name, "counter", help);
    sample(value);
  }
  std::string take() {
    return std::move(text_);
  }

 private:
  std::string text_, name_;
};

std::string label(const char *name, const std::string &value) {
  return std::string(name) + "=\"" + escaped(value) + "\"";
}

void add_spaces(metrics_text &to, const pool_report &report) {
  auto const all = [&](const char *name, const char *help, uint64_t pool_report::space::*value) {
    to.family(name, "gauge", help);
    for (pool_report::space const &each : report.spaces)
      to.sample(each.*value, label("namespace", each.name));
  };
  all("namespace_used_bytes", "Memory that the objects of a namespace take.",
      &pool_report::space::used);
  all("namespace_owned_bytes",
      "Memory that is bound to a namespace, used or not: no other one can have it.",
      &pool_report::space::owned);
  all("namespace_segments", "Parts of the pool's memory that are bound to a namespace.",
      &pool_report::space::segment_count);
  all("namespace_objects", "Committed objects of a namespace.", &pool_report::space::object_count);
  to.family("namespace_quota_bytes", "gauge",
            "What a namespace may take; those without a quota are missing.");
  for (pool_report::space const &each : report.spaces)
    if (each.quota != 0)
      to.sample(each.quota, label("namespace", each.name));
}

void add_paths(metrics_text &to, const pool_report &report) {
  std::array<uint64_t, report_path_count> clients{};
  for (pool_report::client const &each : report.clients)
    if (size_t(each.path) < clients.size())
      clients[each.path]++;
  to.family("clients", "gauge", "Connections, by the path of their bytes.");
  for (size_t i = 0; i < clients.size(); i++)
    to.sample(clients[i], label("path", path_name(uint32_t(i))));
  auto const sum = [&](const char *name, const char *help, uint64_t pool_report::transfer::*value) {
    to.family(name, "counter", help);
    for (size_t i = 0; i < report_path_count; i++)
      to.sample(report.transfers[i].*value, label("path", path_name(uint32_t(i))));
  };
  sum("written_bytes_total", "Bytes of objects that came from clients.",
      &pool_report::transfer::written_size);
  sum("read_bytes_total",
      "Bytes of objects that went to clients; what they copied out of their mapping is as they "
      "tell.",
      &pool_report::transfer::read_size);
}

}  // namespace

std::string report_metrics(const pool_report &report) {
  metrics_text text;
  text.family("info", "gauge", "Always 1; version and backing of the daemon.");
  text.sample(1, label("version", TND_VERSION_STRING) + "," + label("backing", report.backing));
  text.gauge("capacity_bytes", "Memory of the pool.", report.capacity);
  text.gauge("used_bytes", "Memory that objects take, those being written included.", report.used);
  text.gauge("owned_bytes", "Memory that is bound to namespaces, used or not.", report.owned);
  text.gauge("objects", "Committed objects.", report.object_count);
  add_spaces(text, report);
  add_paths(text, report);
  text.counter("committed_bytes_total", "Bytes of objects committed.", report.committed_size);
  text.counter("commits_total", "Objects committed.", report.commits);
  text.counter("opens_total", "Objects opened to be read.", report.opens);
  text.counter("evictions_total", "Objects dropped to make room.", report.evictions);
  text.family("errors_total", "counter", "Requests that failed, by status.");
  for (auto const &[name, count] : report.errors_by_status)
    text.sample(count, label("status", name));
  text.counter("refused_connections_total", "Connections that were not let in.", report.refused);
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3f", double(report.uptime_ns) / 1e9);
  text.family("uptime_seconds", "gauge", "Since the daemon started.");
  text.sample(std::string(seconds));
  return text.take();
}

}  // namespace tanada::pool
