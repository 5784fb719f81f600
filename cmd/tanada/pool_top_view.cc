// cmd/tanada/pool_top_view.cc: formats a sample of tanada pool top.
#include "pool_top_view.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "text.hpp"

namespace tanada::command {
namespace {

[[gnu::format(printf, 3, 4)]] void add_line(std::string &text,
                                            unsigned width,
                                            const char *format,
                                            ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  text += std::string(line).substr(0, width) + "\n";
}

std::string usage_bar(uint64_t used, uint64_t capacity, unsigned width) {
  double const share = capacity > 0 ? std::min(1.0, double(used) / double(capacity)) : 0;
  auto const full = size_t(share * width + 0.5);
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "]";
}

std::vector<double> column(const std::vector<pool_rates> &history, double pool_rates::*value) {
  std::vector<double> values;
  for (pool_rates const &rates : history)
    values.push_back(rates.*value);
  return values;
}

}  // namespace

pool_rates rates_between(const tnd_pool_statistics *previous, const tnd_pool_statistics &current) {
  if (previous == nullptr || current.uptime_ns <= previous->uptime_ns)
    return {};
  double const seconds = double(current.uptime_ns - previous->uptime_ns) / 1e9;
  auto const rate = [&](uint64_t tnd_pool_statistics::*value) {
    return current.*value > previous->*value ? double(current.*value - previous->*value) / seconds
                                             : 0;
  };
  return {rate(&tnd_pool_statistics::written_size),
          rate(&tnd_pool_statistics::read_size),
          rate(&tnd_pool_statistics::commits),
          rate(&tnd_pool_statistics::opens),
          rate(&tnd_pool_statistics::evictions),
          rate(&tnd_pool_statistics::errors)};
}

pool_rates sum_of(const std::vector<top_server> &servers) {
  pool_rates sum;
  for (top_server const &server : servers)
    for (double pool_rates::*value : {&pool_rates::written,
                                      &pool_rates::read,
                                      &pool_rates::commits,
                                      &pool_rates::opens,
                                      &pool_rates::evictions,
                                      &pool_rates::errors})
      sum.*value += server.rates.*value;
  return sum;
}

std::string sparkline(const std::vector<double> &values, size_t width) {
  static constexpr const char *steps[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  size_t const first = values.size() > width ? values.size() - width : 0;
  double most = 0;
  for (size_t i = first; i < values.size(); i++)
    most = std::max(most, values[i]);
  std::string line;
  for (size_t i = first; i < values.size(); i++)
    line += steps[most > 0 ? std::min<size_t>(7, size_t(values[i] / most * 7 + 0.5)) : 0];
  return line;
}

namespace {

// "3 servers up, 1 away, 24 copies missing"
std::string cluster_text(const top_cluster &cluster) {
  std::string text = count_text(cluster.up_count, "server") + " up";
  auto const add = [&](uint32_t count, const std::string &words) {
    if (count > 0)
      text += ", " + words;
  };
  add(cluster.draining_count, std::to_string(cluster.draining_count) + " draining");
  add(cluster.away_count, std::to_string(cluster.away_count) + " away");
  uint32_t const missing_count = cluster.sums.missing_count;
  add(missing_count,
      std::to_string(missing_count) + (missing_count == 1 ? " copy" : " copies") + " missing");
  add(cluster.sums.offline_count,
      count_text(cluster.sums.offline_count, "partition") + " not served");
  add(cluster.sums.lost_count, count_text(cluster.sums.lost_count, "partition") + " lost");
  return cluster.is_whole() ? text + ", all copies there" : text;
}

}  // namespace

std::string top_text(const top_view &view, unsigned width) {
  tnd_pool_statistics const &current = view.current;
  auto const size = [](uint64_t bytes) {
    return size_text(double(bytes));
  };
  std::string text;
  add_line(text,
           width,
           "%s   up %s   %s",
           printable(view.url).c_str(),
           duration_text(double(current.uptime_ns) / 1e9).c_str(),
           count_text(current.client_count, "client").c_str());
  unsigned const bar = std::clamp(width, 40u, 100u) - 38;
  double const share =
      current.capacity > 0 ? 100 * double(current.used) / double(current.capacity) : 0;
  add_line(text,
           width,
           "pool       %s %5.1f %%",
           usage_bar(current.used, current.capacity, bar).c_str(),
           share);
  add_line(text,
           width,
           "           %s of %s used, %s",
           size(current.used).c_str(),
           size(current.capacity).c_str(),
           count_text(current.object_count, "object").c_str());
  add_line(text,
           width,
           "namespace  %s used, %s owned, %s, quota %s",
           size(current.space_used).c_str(),
           size(view.owned).c_str(),
           count_text(current.space_object_count, "object").c_str(),
           current.space_quota != 0 ? size(current.space_quota).c_str() : "none");
  unsigned const history = std::clamp(width, 45u, 120u) - 44;
  for (auto const &[name, rate, total, value] :
       {std::tuple{"written", view.rates.written, current.written_size, &pool_rates::written},
        std::tuple{"read", view.rates.read, current.read_size, &pool_rates::read}}) {
    // Not add_line(): each character of the sparkline has three bytes.
    char facts[64];
    std::snprintf(facts,
                  sizeof facts,
                  "%-10s %12s/s  %12s  ",
                  name,
                  size_text(rate).c_str(),
                  size(total).c_str());
    text += (width >= 45 ? facts + sparkline(column(view.history, value), history)
                         : std::string(facts).substr(0, width)) +
            "\n";
  }
  for (auto const &[name, rate, total] :
       {std::tuple{"commits", view.rates.commits, current.commits},
        std::tuple{"opens", view.rates.opens, current.opens},
        std::tuple{"evictions", view.rates.evictions, current.evictions},
        std::tuple{"errors", view.rates.errors, current.errors}})
    add_line(text, width, "%-10s %12.0f/s  %12llu", name, rate, (unsigned long long)total);
  if (view.cluster)
    add_line(text, width, "cluster    %s", cluster_text(*view.cluster).c_str());
  for (top_server const &server : view.servers)
    add_line(text,
             width,
             "server     %s  %s of %s used  %s/s written  %s/s read",
             printable(server.name).c_str(),
             size(server.current.used).c_str(),
             size(server.current.capacity).c_str(),
             size_text(server.rates.written).c_str(),
             size_text(server.rates.read).c_str());
  return text;
}

namespace {

nlohmann::json rates_json(const pool_rates &rates) {
  return {{"written_size", rates.written},
          {"read_size", rates.read},
          {"commits", rates.commits},
          {"opens", rates.opens},
          {"evictions", rates.evictions},
          {"errors", rates.errors}};
}

}  // namespace

nlohmann::json top_json(const top_view &view) {
  tnd_pool_statistics const &current = view.current;
  nlohmann::json document = {
          {"url", view.url},
          {"uptime_s", double(current.uptime_ns) / 1e9},
          {"client_count", current.client_count},
          {"capacity", current.capacity},
          {"used", current.used},
          {"object_count", current.object_count},
          {"namespace_used", current.space_used},
          {"namespace_owned", view.owned},
          {"namespace_object_count", current.space_object_count},
          {"namespace_quota", current.space_quota},
          {"written_size", current.written_size},
          {"read_size", current.read_size},
          {"commits", current.commits},
          {"opens", current.opens},
          {"evictions", current.evictions},
          {"errors", current.errors},
          {"per_second", rates_json(view.rates)}};
  for (top_server const &server : view.servers)
    document["servers"].push_back({{"name", server.name},
                                   {"uptime_s", double(server.current.uptime_ns) / 1e9},
                                   {"capacity", server.current.capacity},
                                   {"used", server.current.used},
                                   {"object_count", server.current.object_count},
                                   {"per_second", rates_json(server.rates)}});
  if (view.cluster)
    document["cluster"] = {{"up", view.cluster->up_count},
                           {"draining", view.cluster->draining_count},
                           {"away", view.cluster->away_count},
                           {"missing", view.cluster->sums.missing_count},
                           {"offline", view.cluster->sums.offline_count},
                           {"lost", view.cluster->sums.lost_count}};
  return document;
}

}  // namespace tanada::command
