// examples/lbm/options.hpp: the command line.
#pragma once

#include <string>

namespace lbm {

struct options {
  unsigned width = 128, height = 64, depth = 64;  // cells; depth: of each PE
  unsigned steps = 100;
  unsigned rounds = 1;              // of this many steps each; the fastest counts
  std::string exchange = "kernel";  // host, stream or kernel
  bool check = false;
  std::string plant;  // a deliberate error, for the test of the check
};

/// Returns false if the program should end now with `exit_code`, after help or an invalid command
/// line.
bool parse_options(int count, char **words, options &result, int &exit_code);

}  // namespace lbm
