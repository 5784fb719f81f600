// cmd/tanada/comex_top_view.cc: formats a sample of tanada comex top.
#include <algorithm>
#include <cstdio>

#include "comex_top.hpp"
#include "text.hpp"

namespace tanada::command {

std::string comex_text(const nlohmann::json &current, const nlohmann::json &previous) {
  auto const size = [](const nlohmann::json &value) {
    return size_text(value.get<double>());
  };
  double const elapsed_s =
      previous.is_null() ? 0 : current.at("time").get<double>() - previous.at("time").get<double>();
  auto const rate = [&](const char *counter, const char *extra_counter) {
    if (elapsed_s <= 0)
      return std::string{"-"};
    double const growth =
        current.at(counter).get<double>() + current.at(extra_counter).get<double>() -
        previous.at(counter).get<double>() - previous.at(extra_counter).get<double>();
    return size_text(std::max(0.0, growth) / elapsed_s) + "/s";
  };
  double resident_size = 0;
  for (auto const &rank : current.at("ranks"))
    resident_size += rank.at("here").get<double>();
  std::string text;
  char line[256];
  auto const add = [&](int length) {
    text.append(line, size_t(std::min(length, int(sizeof line) - 1))) += "\n";
  };
  add(std::snprintf(line,
                    sizeof line,
                    "process %d: %s of %s in memory, %d slots",
                    current.at("process").get<int>(),
                    size_text(resident_size).c_str(),
                    size(current.at("budget")).c_str(),
                    current.at("slots").get<int>()));
  add(std::snprintf(line,
                    sizeof line,
                    "out  %12s %14s   %8.0f times",
                    size(current.at("bytes_out")).c_str(),
                    rate("bytes_out", "bytes_written_back").c_str(),
                    current.at("swaps_out").get<double>()));
  add(std::snprintf(line,
                    sizeof line,
                    "in   %12s %14s   %8.0f times, %s for others",
                    size(current.at("bytes_in")).c_str(),
                    rate("bytes_in", "bytes_served").c_str(),
                    current.at("swaps_in").get<double>(),
                    size(current.at("bytes_served")).c_str()));
  add(std::snprintf(line,
                    sizeof line,
                    "%5s %8s  %-12s %9s %12s %12s %12s",
                    "rank",
                    "process",
                    "state",
                    "seconds",
                    "here",
                    "away",
                    "allocated"));
  for (auto const &rank : current.at("ranks")) {
    add(std::snprintf(line,
                      sizeof line,
                      "%5d %8d  %-12s %9.2f %12s %12s %12s",
                      rank.at("rank").get<int>(),
                      rank.at("process").get<int>(),
                      printable(rank.at("state").get<std::string>()).c_str(),
                      rank.at("seconds").get<double>(),
                      size(rank.at("here")).c_str(),
                      size(rank.at("away")).c_str(),
                      size(rank.at("allocated")).c_str()));
  }
  return text;
}

}  // namespace tanada::command
