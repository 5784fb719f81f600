// tanada: look at what gfile does and at what this machine offers it, and use the memory pool.
#include <tanada/version.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "commands.hpp"
#include "pool_commands.hpp"

int main(int count, char **words) {
  using namespace tanada::command;
  CLI::App app{"Look at what gfile does and at what this machine offers it, and use the memory pool."};
  app.set_version_flag("--version", std::string("tanada " TND_VERSION_STRING));
  app.require_subcommand(1);

  stat_options wanted;
  CLI::App *const gfile = app.add_subcommand("gfile", "files from inside kernels");
  gfile->require_subcommand(1);
  CLI::App *const stat = gfile->add_subcommand("stat", "counters and files of running processes of this user");
  stat->add_option("PID", wanted.process, "one process; otherwise all")->check(CLI::Range(1, 1 << 22));
  stat->add_flag("--json", wanted.json, "a line of JSON a sample");
  stat->add_option("--watch", wanted.watch_s, "sample every so many seconds, until nothing is left to watch")
      ->check(CLI::Range(0.05, 86400.0));
  stat->add_option("--count", wanted.count, "with --watch: stop after so many samples");

  bool json = false;
  CLI::App *const doctor_command = app.add_subcommand("doctor", "what this machine offers, what is missing and the remedy");
  doctor_command->add_flag("--json", json, "print JSON");
  std::function<int()> of_pool;
  add_pool(app, of_pool);
  try {
    app.parse(count, words);
    if (of_pool) return of_pool();
    return stat->parsed() ? gfile_stat(wanted) : doctor(json);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "tanada: %s\n", error.what());
    return 1;
  }
}
