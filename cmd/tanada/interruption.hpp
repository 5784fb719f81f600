// cmd/tanada/interruption.hpp: what SIGINT, SIGTERM and SIGHUP clean up before they end this
// process.
#pragma once

#include <string>

namespace tanada::command {

/**
 * Handle the three signals: remove the file under way, put the terminal back, and die of the signal
 * as if nothing had handled it. Objects of a pool need nothing: a connection that ends drops what
 * it has not committed.
 */
void interruption_install();

// Instead: the first of them only makes interruption_came() its number, for a command that has to
// tidy up by itself and raise it then; the second ends the process.
void interruption_defer();
int interruption_came();

// A file that an interruption removes while this lives. One at a time.
class interruption_file {
 public:
  explicit interruption_file(const std::string &path);
  ~interruption_file();
  interruption_file(const interruption_file &) = delete;
  interruption_file &operator=(const interruption_file &) = delete;
};

// The keyboard without lines and echo, the cursor hidden, the other screen; as it was when this
// ends, however it ends.
class interruption_screen {
 public:
  explicit interruption_screen(bool has_keyboard);
  ~interruption_screen();
  interruption_screen(const interruption_screen &) = delete;
  interruption_screen &operator=(const interruption_screen &) = delete;
};

}  // namespace tanada::command
