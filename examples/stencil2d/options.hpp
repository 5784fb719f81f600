// examples/stencil2d/options.hpp: the command line.
#pragma once

#include <string>

namespace stencil2d {

struct options {
  unsigned rows = 1024, columns = 1024;  // cells of each PE's tile
  unsigned steps = 100;
  unsigned rounds = 1;              // of this many steps each; the fastest counts
  std::string exchange = "kernel";  // host, stream or kernel
  bool check = false;
  std::string plant;  // a deliberate error, for the test of the check
};

/// Returns false if the program should end now with `exit_code`, after help or an invalid command
/// line.
bool parse_options(int count, char **words, options &result, int &exit_code);

}  // namespace stencil2d
