#include "options.hpp"

#include "../common/command_line.hpp"

namespace stencil2d {

bool parse_options(int count, char **words, options &result, int &exit_code) {
  CLI::App app{
      "A nine-point stencil on a grid that the PEs share; what neighbours need of one another goes "
      "between GPUs' memory."};
  app.add_option("--rows", result.rows, "rows of each PE's tile")
      ->check(CLI::Range(4, 1 << 20))
      ->capture_default_str();
  app.add_option("--columns", result.columns, "columns of each PE's tile")
      ->check(CLI::Range(4, 1 << 20))
      ->capture_default_str();
  app.add_option("--steps", result.steps, "time steps of a round")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--rounds", result.rounds, "rounds; the fastest counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--exchange",
                 result.exchange,
                 "who sends: the host, a stream between kernels, or the kernels themselves")
      ->check(CLI::IsMember({"host", "stream", "kernel"}))
      ->capture_default_str();
  app.add_flag("--check", result.check, "compare with the whole grid computed by one processor");
  app.add_option("--plant", result.plant, "put an error in, for the test of the check")
      ->check(CLI::IsMember({"corner"}))
      ->group("");
  return examples::parse(app, count, words, exit_code);
}

}  // namespace stencil2d
