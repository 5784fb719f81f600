// bench/pool/contest.hpp: stores measured in turn, round by round, so that noise of the machine
// affects all of them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rival.hpp"

namespace bench {

// The contestants by a short name, and the reasons of those that cannot be measured.
class field {
 public:
  using factory = std::unique_ptr<rival> (*)(const rival_options &);

  // Starts it. A contestant that cannot be started is removed with its reason.
  void add(const std::string &id,
           const std::string &label,
           factory make,
           const rival_options &options);
  // Known by its label, but not requested.
  void forgo(const std::string &id, const std::string &label);
  bool has(const std::string &id) const {
    return entries_.count(id) != 0;
  }
  client &connection(const std::string &id) {
    return *entries_.at(id).connection;
  }
  rival &store(const std::string &id) {
    return *entries_.at(id).store;
  }
  // Its name in tables; if it was removed, with the reason.
  std::string label(const std::string &id) const;
  void leave(const std::string &id, const std::string &reason);
  const std::map<std::string, std::string> &absent() const {
    return absent_;
  }

 private:
  struct entry {
    std::unique_ptr<rival> store;
    std::unique_ptr<client> connection;  // destroyed before its store
  };
  std::map<std::string, entry> entries_;
  std::map<std::string, std::string> labels_, absent_;  // absent_: labels with reasons
};

// Seconds of one store's calls in one direction.
struct timings {
  std::vector<double> rounds;  // the median of each round
  std::vector<double> calls;   // all of them, sorted
  double median_s() const {
    return median(rounds);
  }
  double part_s(double part) const {
    return calls[std::min(calls.size() - 1, size_t(part * double(calls.size())))];
  }
};

struct outcome {
  timings put, get;
};

struct contest_size {
  uint64_t object;  // bytes
  unsigned rounds;
  unsigned count;  // calls of each kind in a round
};

// Runs a warm-up round, whose bytes are compared, and then the rounds. A contestant that fails is
// removed and missing in the result.
std::map<std::string, outcome> contest(field &all,
                                       const std::vector<std::string> &ids,
                                       const contest_size &size);

// The median of the rounds' ratios, above / below.
double ratio_of_rounds(const timings &above, const timings &below);

}  // namespace bench
