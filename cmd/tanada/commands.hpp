// cmd/tanada/commands.hpp: what main.cc runs. Each prints and returns the exit status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tanada::command {

struct stat_options {
  int process = 0;     // PID; 0: every one of this user
  bool json = false;   // a line of JSON a sample
  double watch_s = 0;  // seconds between samples; 0: one sample
  uint32_t count = 0;  // samples; 0: until nothing is left to watch
};
// 0; 1 when the process asked for publishes nothing or what it publishes cannot be read.
int gfile_stat(const stat_options &wanted);

struct render_options {
  std::vector<std::string>
      urls;               // pool://, file:// or paths; of snapshots, or what their names begin with
  std::string output;     // .png or .gif
  std::string component;  // only snapshots whose names begin with it and a dash; empty: all
  int axis = 2;           // across which the plane lies: 0 x, 1 y, 2 z
  int64_t index = -1;     // of the plane; -1: in the middle
  double limit = 0;       // value of the strongest colour; 0: by the field
  int size = 800;         // pixels of the longer side at most
  int delay_ms = 80;      // from frame to frame
};
// Throws std::runtime_error.
int render(const render_options &wanted);

struct doctor_options {
  bool json = false;
  std::string pool;  // a URL; empty: none is tried
};

// 0 when what is installed works, else 1.
int doctor(const doctor_options &wanted);

}  // namespace tanada::command
