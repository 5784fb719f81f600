// tanada: look at what gfile does, at what this machine offers it and at what programs left behind,
// and use the pool.
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

CLI::App *add_render(CLI::App &app, tanada::command::render_options &wanted) {
  CLI::App *const render =
      app.add_subcommand("render", "draw a snapshot (.npy), or an animation of many");
  render
      ->add_option("URL", wanted.urls,
                   "snapshots, or what their names begin with: pool://host:port/namespace/name, "
                   "file:///path or a path")
      ->required();
  render->add_option("-o,--output", wanted.output, "FILE.png, or FILE.gif for an animation")
      ->required();
  render->add_option("--component", wanted.component, "only snapshots of it, such as ez");
  render->add_option("--axis", wanted.axis, "across which the plane lies: x, y or z (default: z)")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, int>{{"x", 0}, {"y", 1}, {"z", 2}}));
  render->add_option("--index", wanted.index, "of the plane along the axis (default: the middle)")
      ->check(CLI::Range(0, 1 << 24));
  render
      ->add_option("--limit", wanted.limit,
                   "value of the strongest colours (default: by the field)")
      ->check(CLI::PositiveNumber);
  render->add_option("--size", wanted.size, "pixels of the longer side at most")
      ->check(CLI::Range(32, 8192))
      ->capture_default_str();
  render->add_option("--delay", wanted.delay_ms, "milliseconds from frame to frame")
      ->check(CLI::Range(10, 60000))
      ->capture_default_str();
  return render;
}

CLI::App *add_comex_top(CLI::App &app, tanada::command::comex_top_options &wanted) {
  CLI::App *const comex = app.add_subcommand("comex", "Global Arrays' processes");
  comex->require_subcommand(1);
  CLI::App *const top = comex->add_subcommand(
      "top", "states of processes whose memory leaves, of running jobs of this user");
  top->add_option("PID", wanted.process, "one node's first process; otherwise all of this machine")
      ->check(CLI::Range(1, 1 << 22));
  top->add_flag("--json", wanted.json, "a line of JSON a node and sample");
  top->add_option("--period", wanted.period_s, "seconds between samples")
      ->check(CLI::Range(0.05, 86400.0))
      ->capture_default_str();
  top->add_option("--count", wanted.count, "stop after so many samples");
  return top;
}

}  // namespace

int main(int count, char **words) {
  using namespace tanada::command;
  CLI::App app{
      "Look at what gfile does and at what this machine offers it, and use the memory pool."};
  app.set_version_flag("--version", std::string("tanada " TND_VERSION_STRING));
  app.require_subcommand(1);

  stat_options wanted;
  CLI::App *const gfile = app.add_subcommand("gfile", "files from inside kernels");
  gfile->require_subcommand(1);
  CLI::App *const stat =
      gfile->add_subcommand("stat", "counters and files of running processes of this user");
  stat->add_option("PID", wanted.process, "one process; otherwise all")
      ->check(CLI::Range(1, 1 << 22));
  stat->add_flag("--json", wanted.json, "a line of JSON a sample");
  stat->add_option("--watch", wanted.watch_s,
                   "sample every so many seconds, until nothing is left to watch")
      ->check(CLI::Range(0.05, 86400.0));
  stat->add_option("--count", wanted.count, "with --watch: stop after so many samples");

  doctor_options examined;
  CLI::App *const doctor_command =
      app.add_subcommand("doctor", "what this machine offers, what is missing and the remedy");
  doctor_command->add_flag("--json", examined.json, "print JSON");
  doctor_command->add_option("--pool", examined.pool,
                             "connect to it: pool://host[:port]/namespace");
  std::function<int()> of_pool;
  add_pool(app, of_pool);
  render_options drawn;
  CLI::App *const render_command = add_render(app, drawn);
  comex_top_options watched;
  CLI::App *const comex_command = add_comex_top(app, watched);
  try {
    app.parse(count, words);
    // doctor lists what is wrong with the environment.
    if (!doctor_command->parsed() && tanada::settings_check() != tanada::status::ok)
      return 2;
    if (of_pool)
      return of_pool();
    if (render_command->parsed())
      return render(drawn);
    if (comex_command->parsed())
      return comex_top(watched);
    return stat->parsed() ? gfile_stat(wanted) : doctor(examined);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "tanada: %s\n", error.what());
    return 1;
  }
}
