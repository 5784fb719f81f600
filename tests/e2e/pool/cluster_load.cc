// The clients of a real cluster while things fail: threads that do random calls, and a check of all
// that they saw. cluster_faults.py runs this, sends one command a line to its standard input, and
// reads one JSON object a command from its output:
//
//   mark          begins the figures that `report` has anew
//   report        what clients met since the mark, and problems since the last report
//   allow A,B     changes may also return these statuses (numbers) from now on; none: no others
//   check         holds all clients, reads every name, and checks the history since the last check
//   end
#include <tanada/pool.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "load_client.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::test {
namespace {

constexpr uint64_t poll_ns = 1'000'000;
constexpr uint64_t read_limit_ns = 120'000'000'000;

class cluster_load {
 public:
  explicit cluster_load(const load_options &options)
      : options_{options},
        record_{options.writer_count, options.reader_count},
        checker_{record_, options, options.writer_count + options.reader_count},
        is_idle_(options.writer_count + options.reader_count) {
    for (uint32_t i = 0; i < is_idle_.size(); i++)
      threads_.emplace_back([this, i] { run(i); });
  }
  ~cluster_load() {
    is_ending_ = true;
    for (std::thread &thread : threads_)
      thread.join();
  }
  cluster_load(const cluster_load &) = delete;
  cluster_load &operator=(const cluster_load &) = delete;

  nlohmann::json carry_out(const std::string &command, const std::string &argument) {
    if (command == "mark")
      record_.mark();
    else if (command == "report")
      return report();
    else if (command == "allow")
      allow(argument);
    else if (command == "check")
      return check();
    else
      return {{"error", "unknown command " + command}};
    return nlohmann::json::object();
  }

 private:
  void run(uint32_t index) {
    load_client client{record_, options_, index};
    while (!is_ending_) {
      is_idle_[index] = false;
      bool const may_act = !is_paused_;  // read after is_idle_ was written
      if (may_act)
        client.act();
      is_idle_[index] = true;
      seams::monotonic_clock().sleep_ns(may_act ? options_.pause_ns : poll_ns);
    }
  }

  nlohmann::json report() {
    load_summary const summary = record_.summary();
    return {{"changes", summary.change_count},
            {"reads", summary.read_count},
            {"change_gap_s", double(summary.change_gap_ns) / 1e9},
            {"read_gap_s", double(summary.read_gap_ns) / 1e9},
            {"failures", summary.failure_counts},
            {"messages", summary.last_messages},
            {"problems", record_.take_problems()}};
  }

  void allow(const std::string &argument) {
    std::set<tnd_status> codes;
    std::istringstream words{argument};
    for (std::string word; std::getline(words, word, ',');)
      codes.insert(tnd_status(std::stol(word)));
    record_.allow(std::move(codes));
  }

  nlohmann::json check() {
    is_paused_ = true;
    for (auto const &is_idle : is_idle_)
      while (!is_idle)
        seams::monotonic_clock().sleep_ns(poll_ns);
    std::vector<name_observation> present;
    uint64_t const now_ns = seams::monotonic_clock().now_ns();
    if (!checker_.read_all(present, now_ns + read_limit_ns))
      record_.report_problem("not all names could be read after the faults");
    uint64_t const count = record_.operation_count();
    uint64_t const acknowledged_count = record_.take_acknowledged_count();
    std::string const explanation = record_.check_history(present);
    record_.mark();
    is_paused_ = false;
    return {{"operations", count}, {"acknowledged", acknowledged_count}, {"history", explanation}};
  }

  load_options const options_;
  load_record record_;
  load_client checker_;
  std::vector<std::atomic<bool>> is_idle_;
  std::atomic<bool> is_ending_{false}, is_paused_{false};
  std::vector<std::thread> threads_;
};

int run(const load_options &options) {
  cluster_load load{options};
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words{line};
    std::string command, argument;
    words >> command >> argument;
    if (command == "end")
      break;
    std::cout << load.carry_out(command, argument).dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace tanada::test

int main(int argc, char **argv) {
  tanada::test::load_options options;
  uint64_t timeout_s = 30, pause_ms = 5;
  CLI::App app{"clients of a cluster while things fail"};
  app.add_option("--url", options.url, "pool://HOST:PORT[,HOST:PORT...]/")->required();
  app.add_option("--key-file", options.key_file);
  app.add_option("--seed", options.seed);
  app.add_option("--writers", options.writer_count);
  app.add_option("--readers", options.reader_count);
  app.add_option("--timeout", timeout_s, "of a call, in seconds");
  app.add_option("--pause", pause_ms, "between calls of a client, in milliseconds");
  app.add_flag("--durable", options.is_durable, "some commits are durable");
  CLI11_PARSE(app, argc, argv);
  options.timeout_ns = timeout_s * 1'000'000'000;
  options.pause_ns = pause_ms * 1'000'000;
  return tanada::test::run(options);
}
