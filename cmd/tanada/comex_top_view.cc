#include <algorithm>
#include <cstdio>

#include "comex_top.hpp"
#include "text.hpp"

namespace tanada::command {

std::string comex_text(const nlohmann::json &now, const nlohmann::json &before) {
  auto const size = [](const nlohmann::json &of) {
    return size_text(of.get<double>());
  };
  double const passed =
      before.is_null() ? 0 : now.at("time").get<double>() - before.at("time").get<double>();
  auto const rate = [&](const char *out, const char *beside) {
    if (passed <= 0)
      return std::string{"-"};
    double const more = now.at(out).get<double>() + now.at(beside).get<double>() -
                        before.at(out).get<double>() - before.at(beside).get<double>();
    return size_text(std::max(0.0, more) / passed) + "/s";
  };
  double here = 0;
  for (auto const &each : now.at("ranks"))
    here += each.at("here").get<double>();
  std::string text;
  char line[256];
  auto const add = [&](int length) {
    text.append(line, size_t(std::min(length, int(sizeof line) - 1))) += "\n";
  };
  add(std::snprintf(line, sizeof line, "process %d: %s of %s in memory, %d slots",
                    now.at("process").get<int>(), size_text(here).c_str(),
                    size(now.at("budget")).c_str(), now.at("slots").get<int>()));
  add(std::snprintf(
      line, sizeof line, "out  %12s %14s   %8.0f times", size(now.at("bytes_out")).c_str(),
      rate("bytes_out", "bytes_written_back").c_str(), now.at("swaps_out").get<double>()));
  add(std::snprintf(line, sizeof line, "in   %12s %14s   %8.0f times, %s for others",
                    size(now.at("bytes_in")).c_str(), rate("bytes_in", "bytes_served").c_str(),
                    now.at("swaps_in").get<double>(), size(now.at("bytes_served")).c_str()));
  add(std::snprintf(line, sizeof line, "%5s %8s  %-12s %9s %12s %12s %12s", "rank", "process",
                    "state", "seconds", "here", "away", "allocated"));
  for (auto const &each : now.at("ranks")) {
    add(std::snprintf(line, sizeof line, "%5d %8d  %-12s %9.2f %12s %12s %12s",
                      each.at("rank").get<int>(), each.at("process").get<int>(),
                      printable(each.at("state").get<std::string>()).c_str(),
                      each.at("seconds").get<double>(), size(each.at("here")).c_str(),
                      size(each.at("away")).c_str(), size(each.at("allocated")).c_str()));
  }
  return text;
}

}  // namespace tanada::command
