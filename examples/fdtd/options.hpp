// examples/fdtd/options.hpp: the command line.
#pragma once

#include <string>

namespace fdtd {

struct options {
  unsigned size = 96;  // cells along each axis
  unsigned steps = 0;  // 0: until the pulse has passed the ball
  std::string output = "fdtd-output";
  std::string store;      // URL prefix; empty: a subfolder of the output
  std::string snapshots;  // URL prefix; empty: the store
  unsigned steps_a_snapshot = 10;
  unsigned buffers = 4;         // for snapshots in flight
  bool synchronous = false;     // steps wait for each snapshot
  unsigned compare_rounds = 0;  // 0: no comparison with runs without snapshots
  std::string material;         // URL; empty: created at the store
  std::string boundary = "absorbing";
  std::string exchange = "host";  // what sends edges to other PEs: host, stream or kernel
  std::string validate;           // empty, cavity or planewave
  std::string plant;              // a deliberate error, for the tests of the checks
  bool make_material = false;
  bool no_color = false;
  bool lines = false;  // print progress as lines, even on a terminal
};

/// Returns false if the program should end now with `exit_code`, after help or an invalid command
/// line.
bool parse_options(int count, char **words, options &result, int &exit_code);

}  // namespace fdtd
