// cmd/tanada/progress.hpp: a terminal line that shows the progress of a long copy.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

namespace tanada::command {

struct progress_state {
  std::string name;    // of the current item
  uint64_t done = 0;   // bytes
  uint64_t total = 0;  // bytes; 0: unknown
  double rate = 0;     // bytes per second, recently
};

// At most `width` columns: name, bar, share, bytes, rate and remaining time, or fewer of them if
// they do not fit.
std::string progress_line(const progress_state &state, unsigned width);

/**
 * Draws the line on stderr at most ten times a second, and only if stderr is a terminal. The rate
 * covers the last three seconds.
 */
class progress {
 public:
  using clock = std::chrono::steady_clock;

  progress(bool is_wanted, uint64_t total);
  ~progress();  // removes the line
  progress(const progress &) = delete;
  progress &operator=(const progress &) = delete;

  void name(const std::string &file_name) {
    state_.name = file_name;
  }
  void add(uint64_t size);
  void clear();  // call it before printing anything else

 private:
  void draw(clock::time_point time);

  bool is_shown_;
  bool is_drawn_ = false;
  progress_state state_;
  struct mark {
    clock::time_point time;
    uint64_t done;
  };
  std::deque<mark> marks_;
};

}  // namespace tanada::command
