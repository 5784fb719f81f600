// cmd/tanada/comex_top.hpp: tanada comex top, the states of Global Arrays processes that may be
// swapped out.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tanada::command {

struct comex_top_options {
  int process = 0;    // the agent's PID; 0: all agents of this user
  bool json = false;  // a line of JSON for each node and sample
  double period_s = 1;
  uint32_t count = 0;  // samples; 0: until no agent is left
};
// Prints samples and returns the exit status: 1 if there is no agent.
int comex_top(const comex_top_options &options);

// Formats a node as lines. `previous`: the previous sample, or null.
std::string comex_text(const nlohmann::json &current, const nlohmann::json &previous);

}  // namespace tanada::command
