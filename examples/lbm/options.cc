#include "options.hpp"

#include "../common/command_line.hpp"

namespace lbm {

bool parse_options(int count, char **words, options &result, int &exit_code) {
  CLI::App app{
      "A fluid between two plates by the lattice Boltzmann method; what crosses from PE to PE goes "
      "between GPUs' memory."};
  app.add_option("--width", result.width, "cells along the flow")
      ->check(CLI::Range(4, 4096))
      ->capture_default_str();
  app.add_option("--height", result.height, "cells from plate to plate")
      ->check(CLI::Range(4, 4096))
      ->capture_default_str();
  app.add_option("--depth", result.depth, "planes of each PE")
      ->check(CLI::Range(3, 4096))
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
  app.add_flag("--check",
               result.check,
               "go on until the flow is steady, in a channel 16 cells high, and compare with "
               "Poiseuille's parabola");
  app.add_option("--plant", result.plant, "put an error in, for the test of the check")
      ->check(CLI::IsMember({"force"}))
      ->group("");
  return examples::parse(app, count, words, exit_code);
}

}  // namespace lbm
