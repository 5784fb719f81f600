#include "pool_top_view.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "text.hpp"

namespace tanada::command {
namespace {

[[gnu::format(printf, 3, 4)]] void add_line(std::string &to, unsigned width, const char *format,
                                            ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  to += std::string(text).substr(0, width) + "\n";
}

std::string usage_bar(uint64_t used, uint64_t capacity, unsigned width) {
  double const share = capacity > 0 ? std::min(1.0, double(used) / double(capacity)) : 0;
  auto const full = size_t(share * width + 0.5);
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "]";
}

std::vector<double> column(const std::vector<pool_rates> &history, double pool_rates::*value) {
  std::vector<double> all;
  for (pool_rates const &each : history)
    all.push_back(each.*value);
  return all;
}

}  // namespace

pool_rates rates_between(const tnd_pool_statistics *before, const tnd_pool_statistics &now) {
  if (before == nullptr || now.uptime_ns <= before->uptime_ns)
    return {};
  double const seconds = double(now.uptime_ns - before->uptime_ns) / 1e9;
  auto const rate = [&](uint64_t tnd_pool_statistics::*value) {
    return now.*value > before->*value ? double(now.*value - before->*value) / seconds : 0;
  };
  return {rate(&tnd_pool_statistics::written_size), rate(&tnd_pool_statistics::read_size),
          rate(&tnd_pool_statistics::commits),      rate(&tnd_pool_statistics::opens),
          rate(&tnd_pool_statistics::evictions),    rate(&tnd_pool_statistics::errors)};
}

std::string sparkline(const std::vector<double> &values, size_t width) {
  static constexpr const char *steps[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  size_t const from = values.size() > width ? values.size() - width : 0;
  double most = 0;
  for (size_t i = from; i < values.size(); i++)
    most = std::max(most, values[i]);
  std::string line;
  for (size_t i = from; i < values.size(); i++)
    line += steps[most > 0 ? std::min<size_t>(7, size_t(values[i] / most * 7 + 0.5)) : 0];
  return line;
}

std::string top_text(const top_view &of, unsigned width) {
  tnd_pool_statistics const &now = of.now;
  auto const size = [](uint64_t bytes) {
    return size_text(double(bytes));
  };
  std::string text;
  add_line(text, width, "%s   up %s   %s", printable(of.url).c_str(),
           duration_text(double(now.uptime_ns) / 1e9).c_str(),
           count_text(now.client_count, "client").c_str());
  unsigned const bar = std::clamp(width, 40u, 100u) - 38;
  double const share = now.capacity > 0 ? 100 * double(now.used) / double(now.capacity) : 0;
  add_line(text, width, "pool       %s %5.1f %%", usage_bar(now.used, now.capacity, bar).c_str(),
           share);
  add_line(text, width, "           %s of %s used, %s", size(now.used).c_str(),
           size(now.capacity).c_str(), count_text(now.object_count, "object").c_str());
  add_line(text, width, "namespace  %s used, %s owned, %s, quota %s", size(now.space_used).c_str(),
           size(of.owned).c_str(), count_text(now.space_object_count, "object").c_str(),
           now.space_quota != 0 ? size(now.space_quota).c_str() : "none");
  unsigned const history = std::clamp(width, 45u, 120u) - 44;
  for (auto const &[name, rate, total, value] :
       {std::tuple{"written", of.rates.written, now.written_size, &pool_rates::written},
        std::tuple{"read", of.rates.read, now.read_size, &pool_rates::read}}) {
    // Not add_line(): a character of the line of steps has three bytes.
    char facts[64];
    std::snprintf(facts, sizeof facts, "%-10s %12s/s  %12s  ", name, size_text(rate).c_str(),
                  size(total).c_str());
    text += (width >= 45 ? facts + sparkline(column(of.history, value), history)
                         : std::string(facts).substr(0, width)) +
            "\n";
  }
  for (auto const &[name, rate, total] :
       {std::tuple{"commits", of.rates.commits, now.commits},
        std::tuple{"opens", of.rates.opens, now.opens},
        std::tuple{"evictions", of.rates.evictions, now.evictions},
        std::tuple{"errors", of.rates.errors, now.errors}})
    add_line(text, width, "%-10s %12.0f/s  %12llu", name, rate, (unsigned long long)total);
  return text;
}

nlohmann::json top_json(const top_view &of) {
  tnd_pool_statistics const &now = of.now;
  return {{"url", of.url},
          {"uptime_s", double(now.uptime_ns) / 1e9},
          {"client_count", now.client_count},
          {"capacity", now.capacity},
          {"used", now.used},
          {"object_count", now.object_count},
          {"namespace_used", now.space_used},
          {"namespace_owned", of.owned},
          {"namespace_object_count", now.space_object_count},
          {"namespace_quota", now.space_quota},
          {"written_size", now.written_size},
          {"read_size", now.read_size},
          {"commits", now.commits},
          {"opens", now.opens},
          {"evictions", now.evictions},
          {"errors", now.errors},
          {"per_second",
           {{"written_size", of.rates.written},
            {"read_size", of.rates.read},
            {"commits", of.rates.commits},
            {"opens", of.rates.opens},
            {"evictions", of.rates.evictions},
            {"errors", of.rates.errors}}}};
}

}  // namespace tanada::command
