// cmd/tanada/progress.hpp: one line of a terminal that tells how far a long copy is.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

namespace tanada::command {

struct progress_state {
  std::string name;    // of what moves now
  uint64_t done = 0;   // bytes
  uint64_t total = 0;  // bytes; 0: nobody knows
  double rate = 0;     // bytes a second, lately
};

// At most `width` columns: name, bar, share, bytes, rate, time left; less where there is no room.
std::string progress_line(const progress_state &state, unsigned width);

/**
 * Draws the line on stderr ten times a second at most, and only where stderr is a terminal. The
 * rate is that of the last three seconds.
 */
class progress {
 public:
  using clock = std::chrono::steady_clock;

  progress(bool wanted, uint64_t total);
  ~progress();  // takes the line away
  progress(const progress &) = delete;
  progress &operator=(const progress &) = delete;

  void name(const std::string &of) {
    state_.name = of;
  }
  void add(uint64_t size);
  void clear();  // before something else is printed

 private:
  void draw(clock::time_point now);

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
