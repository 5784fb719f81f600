// examples/common/command_line.hpp: parses a program's command line.
#pragma once

#include <CLI/CLI.hpp>

namespace examples {

/// Returns false if there is nothing to run and the program ends with `exit_code`. The error or the
/// help has then been printed.
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
