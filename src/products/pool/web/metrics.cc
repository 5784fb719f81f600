// Metrics in Prometheus text format 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
#include <tanada/version.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "products/pool/web/report.hpp"

namespace tanada::pool {
namespace {

bool is_utf8(const std::string &text) {
  // Only nlohmann::json has a UTF-8 check in this tree: a strict dump throws for invalid text.
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception &) {
    return false;
  }
}

// "label values can be any sequence of UTF-8 characters, but the backslash, double-quote, and line
// feed characters have to be escaped". Names of namespaces are bytes. If a name is not UTF-8, its
// bytes above ASCII are shown as \xHH.
std::string escaped(const std::string &text) {
  bool const shows_bytes = !is_utf8(text);
  std::string value;
  for (char const c : text) {
    if (c == '\\' || c == '"') {
      value += '\\';
      value += c;
    } else if (c == '\n')
      value += "\\n";
    else if (auto const byte = static_cast<unsigned char>(c); shows_bytes && byte >= 0x80) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\\\x%02X", byte);
      value += hex;
    } else
      value += c;
  }
  return value;
}

// The text of the metrics under construction. The samples of a family follow one HELP and one TYPE
// line.
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
  // Of a part of a histogram.
  void suffixed_sample(const char *suffix, const std::string &value, const std::string &labels) {
    text_ += name_ + suffix + "{" + labels + "} " + value + "\n";
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

void add_spaces(metrics_text &metrics, const pool_report &report) {
  auto const add_gauge =
      [&](const char *name, const char *help, uint64_t pool_report::space::*value) {
        metrics.family(name, "gauge", help);
        for (pool_report::space const &space : report.spaces) {
          metrics.sample(space.*value, label("namespace", space.name));
        }
      };
  add_gauge("namespace_used_bytes",
            "Memory used by the objects of a namespace.",
            &pool_report::space::used);
  add_gauge("namespace_owned_bytes",
            "Memory bound to a namespace, used or not; no other namespace can use it.",
            &pool_report::space::owned);
  add_gauge("namespace_segments",
            "Parts of the pool's memory that are bound to a namespace.",
            &pool_report::space::segment_count);
  add_gauge(
      "namespace_objects", "Committed objects of a namespace.", &pool_report::space::object_count);
  metrics.family("namespace_quota_bytes",
                 "gauge",
                 "Quota of a namespace; namespaces without a quota are omitted.");
  for (pool_report::space const &space : report.spaces)
    if (space.quota != 0)
      metrics.sample(space.quota, label("namespace", space.name));
}

void add_cluster(metrics_text &metrics, const pool_report::cluster_state &cluster) {
  metrics.family("cluster_servers", "gauge", "Servers of the cluster, by state.");
  for (const char *const state : {"up", "draining", "away"}) {
    uint64_t count = 0;
    for (pool_report::cluster_server const &server : cluster.servers)
      count += server.state == state;
    metrics.sample(count, label("state", state));
  }
  uint64_t problem_count = 0, joining_count = 0;
  for (pool_report::cluster_server const &server : cluster.servers) {
    problem_count += !server.problem.empty();
    joining_count += server.joining_count;
  }
  metrics.gauge("cluster_unreachable_servers",
                "Servers that this one should send changes to and cannot.",
                problem_count);
  metrics.gauge("cluster_missing_copies",
                "Copies that partitions should have and have not.",
                cluster.missing_count);
  metrics.gauge("cluster_copies_under_way", "Copies that are being made.", joining_count);
  metrics.gauge("cluster_offline_partitions",
                "Partitions without a copy that runs: they are not served.",
                cluster.offline_count);
  metrics.gauge("cluster_lost_partitions",
                "Partitions that were lost and began again, until this is cleared.",
                cluster.lost_count);
  metrics.gauge("cluster_silence_seconds",
                "Since etcd confirmed these figures; 0 while they are new.",
                cluster.silence_ns / 1'000'000'000);
  metrics.counter("cluster_repaired_bytes_total",
                  "Bytes that this server has sent to servers which lacked them.",
                  cluster.repaired_size);
}

void add_paths(metrics_text &metrics, const pool_report &report) {
  std::array<uint64_t, report_path_count> clients{};
  for (pool_report::client const &client : report.clients)
    if (size_t(client.path) < clients.size())
      clients[client.path]++;
  metrics.family("clients", "gauge", "Connections, by the path of their bytes.");
  for (size_t i = 0; i < clients.size(); i++) {
    metrics.sample(clients[i], label("path", path_name(uint32_t(i))));
  }
  auto const sum = [&](const char *name, const char *help, uint64_t pool_report::transfer::*value) {
    metrics.family(name, "counter", help);
    for (size_t i = 0; i < report_path_count; i++) {
      metrics.sample(report.transfers[i].*value, label("path", path_name(uint32_t(i))));
    }
  };
  sum("written_bytes_total",
      "Bytes of objects that came from clients.",
      &pool_report::transfer::written_size);
  sum("read_bytes_total",
      "Bytes of objects that went to clients; clients report what they copied out of their "
      "mapping.",
      &pool_report::transfer::read_size);
}

std::string seconds_text(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", double(ns) / 1e9);
  return text;
}

// One histogram: cumulative counts by bounds, their sum and their number.
struct histogram_text {
  const std::vector<std::string> &bounds;
  const std::vector<uint64_t> &counts;
  const std::string &sum;
};

void add_histogram(metrics_text &text, const std::string &labels, const histogram_text &counted) {
  uint64_t total = 0;
  for (size_t i = 0; i < counted.counts.size(); i++) {
    total += counted.counts[i];
    std::string const bound = i < counted.bounds.size() ? counted.bounds[i] : "+Inf";
    text.suffixed_sample("_bucket", std::to_string(total), labels + "," + label("le", bound));
  }
  text.suffixed_sample("_sum", counted.sum, labels);
  text.suffixed_sample("_count", std::to_string(total), labels);
}

void add_requests(metrics_text &text, const pool_report &report) {
  std::vector<std::string> seconds, bytes;
  for (uint64_t const bound : report.duration_bounds_ns)
    seconds.push_back(seconds_text(bound));
  for (uint64_t const bound : report.size_bounds)
    bytes.push_back(std::to_string(bound));
  text.family("request_duration_seconds",
              "histogram",
              "From the turn in which a request was received to its reply, by the request.");
  for (pool_report::request_counts const &counted : report.requests)
    add_histogram(text,
                  label("request", counted.name),
                  {seconds, counted.duration_counts, seconds_text(counted.duration_ns_sum)});
  text.family("request_size_bytes",
              "histogram",
              "Bytes of objects in a request or its reply, where it has some.");
  for (pool_report::request_counts const &counted : report.requests)
    add_histogram(text,
                  label("request", counted.name),
                  {bytes, counted.size_counts, std::to_string(counted.size_sum)});
}

void add_errors(metrics_text &text, const pool_report &report) {
  text.family("errors_total", "counter", "Requests that failed, by status.");
  for (auto const &[name, count] : report.errors_by_status)
    text.sample(count, label("status", name));
}

void add_space(metrics_text &text, const pool_report &report) {
  text.gauge("capacity_bytes", "Bytes that objects may take, in memory or not.", report.capacity);
  text.gauge("used_bytes", "Bytes of objects, including those being written.", report.used);
  text.gauge("memory_capacity_bytes", "Memory of the pool.", report.memory_capacity);
  text.gauge("memory_used_bytes", "Memory used by objects.", report.memory_used);
  text.gauge("cold_objects", "Committed objects that are not in memory.", report.cold_count);
  text.gauge("cold_bytes", "Bytes of objects that are not in memory.", report.cold_size);
  text.counter("demotions_total", "Objects that left memory for the log.", report.demotions);
  text.counter("promotions_total", "Objects read back into memory.", report.promotions);
}

}  // namespace

std::string report_metrics(const pool_report &report) {
  metrics_text text;
  text.family("info", "gauge", "Always 1; version, backing and durability of the daemon.");
  text.sample(1,
              label("version", TND_VERSION_STRING) + "," + label("backing", report.backing) + "," +
                  label("durability", report.durability));
  add_space(text, report);
  text.gauge("owned_bytes", "Memory bound to namespaces, used or not.", report.owned);
  text.gauge("ring_bytes", "Memory of clients' rings.", report.ring_size);
  text.gauge("objects", "Committed objects.", report.object_count);
  add_spaces(text, report);
  add_paths(text, report);
  if (report.cluster)
    add_cluster(text, *report.cluster);
  text.counter("committed_bytes_total", "Bytes of objects committed.", report.committed_size);
  text.counter("commits_total", "Objects committed.", report.commits);
  text.counter("opens_total", "Objects opened to be read.", report.opens);
  text.counter("evictions_total", "Objects evicted to free memory.", report.evictions);
  add_errors(text, report);
  if (!report.requests.empty())
    add_requests(text, report);
  text.counter("refused_connections_total", "Connections that were refused.", report.refused);
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3f", double(report.uptime_ns) / 1e9);
  text.family("uptime_seconds", "gauge", "Since the daemon started.");
  text.sample(std::string(seconds));
  return text.take();
}

}  // namespace tanada::pool
