// bench/common/report.hpp: what every benchmark prints: one JSON object and the same as a table.
//
//   {"bench", "date", "machine", "command", "rows": [{"what", "value", "unit", "rival",
//   "rival_value", "ratio", "bar", "better", "met"}]}
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace bench {

enum class better { higher, lower };

struct row {
  std::string what;
  double value = 0;
  std::string unit;
  std::string rival;  // empty: none
  std::optional<double>
      rival_value;  // absent although there is a rival: it could not be run; `rival` says why
  std::optional<double> bar;  // what the ratio (or value, without a rival) is held to
  better direction = better::higher;
  std::optional<double> ratio =
      std::nullopt;  // absent: value / rival_value; or the median of the ratios of rounds in turn
};

class report {
 public:
  // `device`: the GPU's name, or what took its place.
  report(std::string name, std::string device);

  void add(row measured);

  // The table on standard output; the JSON there too, or into the file of --json FILE. Returns the
  // exit status: 0, or 1 when the file cannot be written. A bar that is missed is reported, not an
  // error.
  int finish(int argc, char **argv) const;

 private:
  std::string json(const std::string &command) const;
  std::string table() const;
  std::string name_, machine_;
  std::vector<row> rows_;
};

// What run() returns; of an exception a line on standard error, after the program's name, and 1.
int guarded(const char *program, const std::function<int()> &run);

// Hands each word of a command line to `take`: "--name" with the value behind it, any other with
// nullptr. --json is finish()'s. Throws where an option has no value, and where take() returns
// false; `source` holds the list of options.
using option_taker = std::function<bool(const std::string &word, const char *value)>;
void read_options(int argc, char **argv, const char *source, const option_taker &take);

// Median of measurements; they are sorted on the way.
double median(std::vector<double> values);

// Seconds since some start, monotonic.
double now_s();

}  // namespace bench
