// cmd/tanada/commands.hpp: the commands that main.cc runs. Each prints and returns the exit status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tanada::command {

struct stat_options {
  int process = 0;     // PID; 0: all processes of this user
  bool json = false;   // a line of JSON for each sample
  double watch_s = 0;  // seconds between samples; 0: one sample
  uint32_t count = 0;  // samples; 0: until no process is left
};
// Returns 0, or 1 if the requested process publishes no page or its page cannot be read.
int gfile_stat(const stat_options &options);

struct render_options {
  std::vector<std::string>
      urls;               // pool://, file:// or paths of snapshots, or prefixes of their names
  std::string output;     // .png or .gif
  std::string component;  // only snapshots whose names begin with it and a dash; empty: all
  int axis = 2;           // axis normal to the plane: 0 x, 1 y, 2 z
  int64_t index = -1;     // of the plane; -1: the middle
  double limit = 0;       // value of the strongest colour; 0: chosen from the field
  int size = 800;         // maximum pixels of the longer side
  int delay_ms = 80;      // between frames
};
// Throws std::runtime_error.
int render(const render_options &options);

struct doctor_options {
  bool json = false;
  std::string pool;  // a URL to test; empty: none
};

// Returns 0 if the installed parts work, else 1.
int doctor(const doctor_options &options);

struct running_options {
  bool json = false;
};

// Prints the processes of Tanada on this machine and what ended ones left. Returns 0.
int show_running(const running_options &options);

}  // namespace tanada::command
