// cmd/tanada/running_report.cc: tanada status: prints what runs on this machine.
#include <cstdio>
#include <map>
#include <utility>

#include "commands.hpp"
#include "running.hpp"
#include "text.hpp"

namespace tanada::command {
namespace {

using process_list = std::vector<const running_process *>;

std::string processes_text(uint64_t count) {
  return std::to_string(count) + (count == 1 ? " process" : " processes");
}

std::string ports_text(const running_process &process) {
  if (process.ports.empty())
    return {};
  std::string text = process.ports.size() == 1 ? ", port" : ", ports";
  for (uint16_t const port : process.ports)
    text += " " + std::to_string(port);
  return text;
}

std::string process_text(const running_process &process) {
  std::string const connections =
      process.connection_count == 0 ? std::string{}
                                    : ", " + count_text(process.connection_count, "TCP connection");
  return "  PID " + std::to_string(process.id) + ", user " + std::to_string(process.user) +
         ports_text(process) + connections + (process.has_gfile ? ", files in kernels" : "") +
         ", " + size_text(double(process.resident_size)) + ": " + printable(process.command) + "\n";
}

// Processes of one job of a launcher stand together, and others each for itself.
std::map<std::pair<std::string, std::string>, process_list> by_job(const running_state &state) {
  std::map<std::pair<std::string, std::string>, process_list> jobs;
  for (running_process const &process : state.processes)
    jobs[{process.product, process.job}].push_back(&process);
  return jobs;
}

}  // namespace

std::string running_text(const running_state &state) {
  std::string text;
  for (auto const &[key, processes] : by_job(state)) {
    auto const &[product, job] = key;
    text += product;
    if (!job.empty())
      text += ", job " + printable(job) + ", " + processes_text(processes.size());
    text += "\n";
    for (const running_process *const process : processes)
      text += process_text(*process);
  }
  if (state.processes.empty())
    text += "no process of Tanada runs here\n";
  if (state.has_o2g_driver)
    text += "o2g driver: loaded\n";
  if (!state.leftovers.empty())
    text += "left by processes that have ended; remove them with rm -r\n";
  for (leftover const &file : state.leftovers)
    text += "  " + printable(file.path) + ", " + size_text(double(file.size)) + "\n";
  if (state.hidden_count != 0)
    text += processes_text(state.hidden_count) + " not examined: of other users, or just ending\n";
  return text;
}

nlohmann::json running_json(const running_state &state) {
  nlohmann::json processes = nlohmann::json::array(), leftovers = nlohmann::json::array();
  for (running_process const &process : state.processes)
    processes.push_back({{"pid", process.id},
                         {"user", process.user},
                         {"product", process.product},
                         {"gfile", process.has_gfile},
                         {"job", process.job},
                         {"command", process.command},
                         {"ports", process.ports},
                         {"connections", process.connection_count},
                         {"resident_bytes", process.resident_size}});
  for (leftover const &file : state.leftovers)
    leftovers.push_back({{"path", file.path}, {"bytes", file.size}});
  return {{"processes", processes},
          {"leftovers", leftovers},
          {"processes_not_examined", state.hidden_count},
          {"o2g_driver", state.has_o2g_driver}};
}

int show_running(const running_options &options) {
  running_state const state = find_running("");
  std::string const text =
      options.json
          ? running_json(state).dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n"
          : running_text(state);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace tanada::command
