#include "python_rival.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace bench {
namespace {

constexpr double start_limit_s = 60, call_limit_s = 120;

// The program's output after "ready". The libraries also print to standard output.
std::string hear_ready(server &program) {
  for (;;)
    if (std::string const line = program.hear(start_limit_s); line.rfind("ready", 0) == 0)
      return line.substr(std::min<size_t>(6, line.size()));
}

}  // namespace

std::vector<std::string> python_role::words() const {
  return {python,
          BENCH_POOL_SOURCE "/" + script,
          role,
          peer,
          "127.0.0.1:" + std::to_string(free_port()),
          std::to_string(size)};
}

python_owner::python_owner(const python_role &role, const std::string &log)
    : process_{role.words(), log}, said_{hear_ready(process_)} {}

python_client::python_client(const python_role &role, const std::string &log)
    : process_{role.words(), log} {
  (void)hear_ready(process_);
}

std::vector<double> python_client::put(const std::string &key,
                                       const uint8_t *,
                                       uint64_t size,
                                       unsigned count) {
  return seconds("put " + key + " " + std::to_string(size) + " " + std::to_string(count));
}

std::vector<double> python_client::get(const std::string &key,
                                       uint8_t *,
                                       uint64_t size,
                                       unsigned count) {
  return seconds("get " + key + " " + std::to_string(size) + " " + std::to_string(count));
}

double python_client::put_many(const std::string &prefix, const uint8_t *, double duration_s) {
  return nlohmann::json::parse(ask("many " + prefix + " " + std::to_string(duration_s)))
      .at("rate")
      .get<double>();
}

std::vector<double> python_client::seconds(const std::string &line) {
  return nlohmann::json::parse(ask(line)).at("seconds").get<std::vector<double>>();
}

std::string python_client::ask(const std::string &line) {
  process_.say(line);
  for (;;)
    if (std::string answer = process_.hear(call_limit_s); answer.rfind('{', 0) == 0)
      return answer;
}

}  // namespace bench
