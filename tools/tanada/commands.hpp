// tools/tanada/commands.hpp: what main.cc runs. Each prints and returns the exit status.
#pragma once

#include <cstdint>

namespace tanada::command {

struct stat_options {
  int process = 0;        // PID; 0: every one of this user
  bool json = false;      // a line of JSON a sample
  double watch_s = 0;     // seconds between samples; 0: one sample
  uint32_t count = 0;     // samples; 0: until nothing is left to watch
};
// 0; 1 when the process asked for publishes nothing or what it publishes cannot be read.
int gfile_stat(const stat_options &wanted);

// 0 when what gfile needs is there, else 1.
int doctor(bool json);

}  // namespace tanada::command
