// cmd/tanada/interruption.hpp: cleanup on SIGINT, SIGTERM and SIGHUP before they end this process.
#pragma once

#include <string>

namespace tanada::command {

/**
 * Handles the three signals: removes the unfinished file, restores the terminal, and ends the
 * process by the signal. Objects of a pool need no cleanup: when a connection ends, its uncommitted
 * objects are dropped.
 */
void interruption_install();

// Instead, the first signal only sets interruption_signal() to its number, for a command that
// cleans up and then raises the signal itself. The second signal ends the process.
void interruption_defer();
int interruption_signal();

// A file that an interruption removes during this object's lifetime. Only one at a time.
class interruption_file {
 public:
  explicit interruption_file(const std::string &path);
  ~interruption_file();
  interruption_file(const interruption_file &) = delete;
  interruption_file &operator=(const interruption_file &) = delete;
};

// Turns off line mode and echo, hides the cursor, and switches to the alternate screen. Restores
// all three on destruction or on a signal.
class interruption_screen {
 public:
  explicit interruption_screen(bool has_keyboard);
  ~interruption_screen();
  interruption_screen(const interruption_screen &) = delete;
  interruption_screen &operator=(const interruption_screen &) = delete;
};

}  // namespace tanada::command
