// cmd/tanada/comex_top.hpp: tanada comex top: what processes of Global Arrays whose memory leaves
// are doing.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tanada::command {

struct comex_top_options {
  int process = 0;    // the agent's PID; 0: every one of this user
  bool json = false;  // a line of JSON a node and sample
  double period_s = 1;
  uint32_t count = 0;  // samples; 0: until nothing is left to see
};
// Prints, and returns the exit status: 1 where there is nothing to see.
int comex_top(const comex_top_options &wanted);

// A node, as lines; `before`: the sample before, or null.
std::string comex_text(const nlohmann::json &now, const nlohmann::json &before);

}  // namespace tanada::command
