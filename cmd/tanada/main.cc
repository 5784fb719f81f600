// cmd/tanada/main.cc: the command line of Tanada. It shows what gfile does, what this machine
// offers it and what programs left behind, and uses the pool.
#include <tanada/version.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>

#include "comex_top.hpp"
#include "commands.hpp"
#include "core/base/settings.hpp"
#include "pool_commands.hpp"

namespace {

// Headings of --help.
constexpr char observing[] = "Running programs";
constexpr char pools[] = "The pool and its snapshots";
constexpr char machine[] = "This machine";

CLI::App *add_render(CLI::App &app, tanada::command::render_options &options) {
  CLI::App *const render =
      app.add_subcommand("render", "draw a snapshot (.npy), or an animation of many");
  render->group(pools);
  render
      ->add_option("URL",
                   options.urls,
                   "snapshots, or prefixes of their names: pool://host:port/namespace/name, "
                   "file:///path or a path")
      ->required();
  render->add_option("-o,--output", options.output, "FILE.png, or FILE.gif for an animation")
      ->required();
  render->add_option(
      "--component", options.component, "only snapshots of this component, such as ez");
  render->add_option("--axis", options.axis, "axis normal to the plane: x, y or z (default: z)")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, int>{{"x", 0}, {"y", 1}, {"z", 2}}));
  render
      ->add_option(
          "--index", options.index, "index of the plane along the axis (default: the middle)")
      ->check(CLI::Range(0, 1 << 24));
  render
      ->add_option("--limit",
                   options.limit,
                   "value of the strongest colours (default: chosen from the field)")
      ->check(CLI::PositiveNumber);
  render->add_option("--size", options.size, "pixels of the longer side at most")
      ->check(CLI::Range(32, 8192))
      ->capture_default_str();
  render->add_option("--delay", options.delay_ms, "milliseconds from frame to frame")
      ->check(CLI::Range(10, 60000))
      ->capture_default_str();
  return render;
}

CLI::App *add_comex_top(CLI::App &app, tanada::command::comex_top_options &options) {
  CLI::App *const comex = app.add_subcommand("comex", "processes of Global Arrays");
  comex->group(observing);
  comex->require_subcommand(1);
  CLI::App *const top = comex->add_subcommand(
      "top", "states of processes that may be swapped out, in running jobs of this user");
  top->add_option("PID",
                  options.process,
                  "the first process of a job on this node; default: all jobs of this user")
      ->check(CLI::Range(1, 1 << 22));
  top->add_flag("--json", options.json, "a line of JSON for each node and sample");
  top->add_option("--period", options.period_s, "seconds between samples")
      ->check(CLI::Range(0.05, 86400.0))
      ->capture_default_str();
  top->add_option("--count", options.count, "stop after this many samples");
  return top;
}

}  // namespace

int main(int count, char **arguments) {
  using namespace tanada::command;
  CLI::App app{"Show what gfile does and what this machine offers it, and use the memory pool."};
  app.set_version_flag("--version", std::string("tanada " TND_VERSION_STRING));
  app.require_subcommand(1);

  stat_options gfile_options;
  CLI::App *const gfile = app.add_subcommand("gfile", "files from inside kernels");
  gfile->group(observing);
  gfile->require_subcommand(1);
  CLI::App *const stat =
      gfile->add_subcommand("stat", "counters and files of running processes of this user");
  stat->add_option("PID", gfile_options.process, "one process; otherwise all")
      ->check(CLI::Range(1, 1 << 22));
  stat->add_flag("--json", gfile_options.json, "a line of JSON for each sample");
  stat->add_option(
          "--watch", gfile_options.watch_s, "seconds between samples, until no process is left")
      ->check(CLI::Range(0.05, 86400.0));
  stat->add_option("--count", gfile_options.count, "with --watch: stop after this many samples");

  doctor_options checks;
  CLI::App *const doctor_command =
      app.add_subcommand("doctor", "what this machine offers, what is missing and the remedy");
  doctor_command->group(machine);
  doctor_command->add_flag("--json", checks.json, "print JSON");
  doctor_command->add_option(
      "--pool", checks.pool, "also connect to this pool: pool://host[:port]/namespace");
  std::function<int()> pool_command;
  add_pool(app, pool_command);
  app.get_subcommand("pool")->group(pools);
  render_options drawing;
  CLI::App *const render_command = add_render(app, drawing);
  comex_top_options monitoring;
  CLI::App *const comex_command = add_comex_top(app, monitoring);
  try {
    app.parse(count, arguments);
    // doctor itself reports problems of the environment.
    if (!doctor_command->parsed() && tanada::settings_check() != tanada::status::ok)
      return 2;
    if (pool_command)
      return pool_command();
    if (render_command->parsed())
      return render(drawing);
    if (comex_command->parsed())
      return comex_top(monitoring);
    return stat->parsed() ? gfile_stat(gfile_options) : doctor(checks);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "tanada: %s\n", error.what());
    return 1;
  }
}
