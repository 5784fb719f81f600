#include "options.hpp"

#include "../common/command_line.hpp"

namespace fdtd {

bool parse_options(int count, char **words, options &result, int &exit_code) {
  CLI::App app{
      "Maxwell's equations in three dimensions; kernels read and write the files of a store "
      "themselves."};
  app.add_option("--size", result.size, "cells an axis")
      ->check(CLI::Range(32, 2048))
      ->capture_default_str();
  app.add_option(
      "--steps", result.steps, "time steps (default: until the pulse has passed the ball)");
  app.add_option("--output", result.output, "folder for the picture, the table and the timings")
      ->capture_default_str();
  app.add_option(
      "--store",
      result.store,
      "URL prefix for what kernels read and write, such as gfarm:///demo, mem://demo or a folder "
      "(default: OUTPUT/store)");
  app.add_option("--snapshots",
                 result.snapshots,
                 "URL prefix for the snapshots: pool://host:port/namespace/prefix or "
                 "file:///folder, which threads of "
                 "the host write while the steps go on; anything else, such as gfarm:///folder, is "
                 "written by kernels "
                 "(default: the store, by kernels)");
  app.add_option("--snapshot-every", result.steps_a_snapshot, "steps from a snapshot to the next")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option(
         "--buffers", result.buffers, "copies of the field for snapshots that threads are writing")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  app.add_flag(
      "--synchronous", result.synchronous, "steps wait until each snapshot is where it belongs");
  app.add_option(
         "--compare",
         result.compare_rounds,
         "afterwards so many rounds without and with snapshots: what they cost, by the medians")
      ->check(CLI::Range(1, 1000));
  app.add_option(
      "--material", result.material, "URL of a material map made before (default: one is made)");
  app.add_flag(
      "--make-material", result.make_material, "make the material map at the store, and end");
  app.add_option("--boundary", result.boundary, "what the six walls are")
      ->check(CLI::IsMember({"absorbing", "periodic", "conductor"}))
      ->capture_default_str();
  app.add_option("--exchange",
                 result.exchange,
                 "who sends edges to other PEs: the host, a stream between kernels, or the kernels "
                 "themselves")
      ->check(CLI::IsMember({"host", "stream", "kernel"}))
      ->capture_default_str();
  app.add_option(
         "--validate", result.validate, "measure against theory instead: cavity or planewave")
      ->check(CLI::IsMember({"cavity", "planewave"}));
  app.add_flag("--no-color", result.no_color, "no colours on the terminal");
  app.add_flag(
      "--lines", result.lines, "tell progress in lines, as where the output is no terminal");
  app.add_option("--plant", result.plant, "put an error in, for the tests of the checks")
      ->check(CLI::IsMember({"time-step", "field"}))
      ->group("");
  return examples::parse(app, count, words, exit_code);
}

}  // namespace fdtd
