#include "comex_top.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

#include "port/stream/teller.hpp"

namespace tanada::command {
namespace {

using nodes = std::map<int, nlohmann::json>;

nodes sample(const comex_top_options &wanted) {
  std::string const label = "tanada-comex-" + std::to_string(geteuid()) + "-";
  nodes found;
  for (auto const &name : port::tellers_find(label)) {
    int const process = std::atoi(name.c_str() + label.size());
    if (wanted.process != 0 && process != wanted.process) continue;
    auto told = port::teller_ask(name);
    if (!told.ok()) continue;  // it has just ended, or another user has the name
    auto parsed = nlohmann::json::parse(told.value(), nullptr, false);
    if (parsed.is_object() && parsed.contains("ranks")) found[process] = std::move(parsed);
  }
  return found;
}

}  // namespace

int comex_top(const comex_top_options &wanted) {
  bool const is_live = !wanted.json && ::isatty(STDOUT_FILENO) != 0;
  nodes before;
  for (uint32_t taken = 0;; taken++) {
    nodes now = sample(wanted);
    if (now.empty()) {
      if (taken == 0) std::fputs("tanada: no process of this user has TND_COMEX_MEMORY, or it has ended\n", stderr);
      return taken == 0 ? 1 : 0;
    }
    if (is_live) std::fputs("\x1b[H\x1b[J", stdout);
    for (auto const &[process, each] : now) {
      auto const old = before.find(process);
      std::string const text = wanted.json ? each.dump() + "\n" : comex_text(each, old == before.end() ? nlohmann::json{} : old->second);
      std::fputs(text.c_str(), stdout);
    }
    std::fflush(stdout);
    before = std::move(now);
    if (taken + 1 == wanted.count) return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(wanted.period_s));
  }
}

}  // namespace tanada::command
