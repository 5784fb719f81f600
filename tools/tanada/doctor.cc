#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "port/machine/probes.hpp"

namespace tanada::command {

int doctor(bool json) {
  static constexpr const char *words[] = {"ok", "lacking", "broken"};
  auto const found = port::probe_all({});
  bool is_broken = false;
  nlohmann::json all = nlohmann::json::array();
  for (port::finding const &each : found) {
    is_broken |= each.state == port::finding_state::broken;
    const char *const word = words[size_t(each.state)];
    if (json) {
      all.push_back({{"topic", each.topic}, {"state", word}, {"text", each.text}, {"remedy", each.remedy}});
    } else {
      std::string const remedy = each.remedy.empty() ? std::string{} : "  [" + each.remedy + "]";
      std::printf("%-8s %-14s %s%s\n", word, each.topic, each.text.c_str(), remedy.c_str());
    }
  }
  if (json) {
    nlohmann::json const report = {{"works", !is_broken}, {"findings", all}};
    std::printf("%s\n", report.dump(2, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
  }
  return is_broken ? 1 : 0;
}

}  // namespace tanada::command
