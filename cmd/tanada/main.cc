// cmd/tanada/main.cc: the command line of Tanada. It shows what gfile does, what this machine
// offers it and what programs left behind, and uses the pool.
#include <tanada/version.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>
#include <string_view>
#include <vector>

#include "comex_top.hpp"
#include "commands.hpp"
#include "core/base/settings.hpp"
#include "pool_commands.hpp"
#include "text.hpp"

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

// The subcommand that was probably meant, or "": two of its letters at most differ, and most are
// the same.
std::string near_subcommand(const CLI::App &app, const std::string &word) {
  std::vector<std::string> names;
  for (const CLI::App *subcommand : app.get_subcommands([](const CLI::App *) { return true; }))
    names.push_back(subcommand->get_name());
  std::vector<std::string_view> const views{names.begin(), names.end()};
  std::string const nearest{tanada::nearest_name(word, views)};
  size_t const distance = tanada::edit_distance(word, nearest);
  return distance <= 2 && distance < nearest.size() ? nearest : "";
}

// Reports what is wrong with the command line. CLI11 takes a word that is no subcommand for a
// missing one.
int fail_parse(const CLI::App &app, const CLI::ParseError &error) {
  const CLI::App *last = &app;
  std::string command = "tanada";
  while (!last->get_subcommands().empty()) {
    last = last->get_subcommands().front();
    command += " " + last->get_name();
  }
  auto const unknown = last->remaining();
  if (dynamic_cast<const CLI::RequiredError *>(&error) == nullptr || unknown.empty())
    return app.exit(error) == 0 ? 0 : 2;
  std::string const near = near_subcommand(*last, unknown.front());
  std::fprintf(stderr,
               "%s has no subcommand %s%s%s; %s --help lists them\n",
               command.c_str(),
               tanada::command::printable(unknown.front()).c_str(),
               near.empty() ? "" : ", did you mean ",
               near.c_str(),
               command.c_str());
  return 2;
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
  running_options running;
  CLI::App *const status_command = app.add_subcommand(
      "status", "daemons and jobs that run on this machine, and what ended ones left");
  status_command->group(machine);
  status_command->add_flag("--json", running.json, "print JSON");
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
    if (status_command->parsed())
      return show_running(running);
    if (comex_command->parsed())
      return comex_top(monitoring);
    return stat->parsed() ? gfile_stat(gfile_options) : doctor(checks);
  } catch (const CLI::ParseError &error) {
    return fail_parse(app, error);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "tanada: %s\n", error.what());
    return 1;
  }
}
