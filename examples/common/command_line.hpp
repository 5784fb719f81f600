// examples/common/command_line.hpp: what a program does with its words.
#pragma once

#include <CLI/CLI.hpp>

namespace examples {

/// False: there is nothing to run, and the program ends with `exit_code`; what is wrong, or the
/// help, has been printed.
inline bool parse(CLI::App &app, int count, const char *const *words, int &exit_code) {
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError &error) {
    exit_code = app.exit(error);
    return false;
  }
  return true;
}

}  // namespace examples
