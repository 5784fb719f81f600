// bench/common/report.hpp: the output of every benchmark: one JSON object and the same as a table.
//
// {"bench", "date", "machine", "command", "rows": [{"what", "value", "unit", "rival",
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
      rival_value;  // absent although there is a rival: it could not be run; `rival` has the reason
  std::optional<double> bar;  // the limit for the ratio (or for the value, without a rival)
  better direction = better::higher;
  std::optional<double> ratio = std::nullopt;  // absent: value / rival_value; otherwise the median
                                               // of the ratios of alternating rounds
};

class report {
 public:
  // `device`: the GPU's name, or what replaced it.
  report(std::string name, std::string device);

  void add(row measured);

  // Prints the table on standard output and the JSON there or to the file of --json FILE. Returns
  // the exit status: 0, or 1 if the file cannot be written. A missed bar is reported, but is not an
  // error.
  int finish(int argc, char **argv) const;

 private:
  std::string json(const std::string &command) const;
  std::string table() const;
  std::string name_, machine_;
  std::vector<row> rows_;
};

// Returns what run() returns. Prints an exception on standard error, after the program's name, and
// then returns 1.
int guarded(const char *program, const std::function<int()> &run);

// Passes each word of a command line to `take`: "--name" with its value, and other words with
// nullptr. --json is for finish(). Throws if an option has no value, or if take() returns false;
// `source` contains the list of options.
using option_taker = std::function<bool(const std::string &word, const char *value)>;
void read_options(int argc, char **argv, const char *source, const option_taker &take);

// Median of measurements, which are sorted in place.
double median(std::vector<double> values);

// Seconds since some start, monotonic.
double now_s();

}  // namespace bench
