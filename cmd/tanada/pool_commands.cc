#include "pool_commands.hpp"

#include <CLI/CLI.hpp>

namespace tanada::command {
namespace {

constexpr const char *url_help = "pool://host[:port]/namespace/object";

// A subcommand whose options live as long as the program and that calls `run` with them.
template <class Options>
Options &add(CLI::App &to, const char *name, const char *help, int (*run)(const Options &),
             std::function<int()> &chosen, CLI::App *&made) {
  auto const options = std::make_shared<Options>();
  made = to.add_subcommand(name, help);
  made->callback([options, run, &chosen] {
    chosen = [options, run] {
      return run(*options);
    };
  });
  made->add_flag("--json", options->json, "print JSON");
  return *options;
}

void add_connection(CLI::App &to, pool_options &options) {
  to.add_option("--timeout", options.timeout_s,
                "seconds that a call may take; otherwise TND_POOL_TIMEOUT, or 30")
      ->check(CLI::Range(0.001, 1e6));
  to.add_option("--key-file", options.key_file,
                "this client's key, mode 0600; otherwise TND_POOL_KEY_FILE")
      ->check(CLI::ExistingFile);
}

void add_durable(CLI::App &to, bool &durable) {
  to.add_flag("--durable", durable, "return when the pool's backing holds it");
}

void add_version(CLI::App &to, uint64_t &version) {
  to.add_option("--version", version, "that version of an object, not the newest")
      ->check(CLI::PositiveNumber);
}

void add_readers(CLI::App &pool, std::function<int()> &chosen) {
  CLI::App *made = nullptr;
  auto &list = add<pool_list_options>(pool, "ls", "objects whose names begin with a prefix",
                                      pool_list, chosen, made);
  made->add_option("URL", list.url, "pool://host[:port]/namespace[/prefix]")->required();
  add_connection(*made, list);

  auto &stat =
      add<pool_stat_options>(pool, "stat", "an object; of a namespace: the pool and the way to it",
                             pool_stat, chosen, made);
  made->add_option("URL", stat.url, "pool://host[:port]/namespace[/object]")->required();
  add_version(*made, stat.version);
  add_connection(*made, stat);

  auto &cat = add<pool_cat_options>(pool, "cat", "the bytes of objects on standard output",
                                    pool_cat, chosen, made);
  made->add_option("URL", cat.urls, url_help)->required();
  add_version(*made, cat.version);
  add_connection(*made, cat);

  auto &top =
      add<pool_top_options>(pool, "top", "live view of a pool; q ends it", pool_top, chosen, made);
  made->add_option("URL", top.url, "pool://host[:port]/namespace")->required();
  made->add_option("--period", top.period_s, "seconds between samples")
      ->check(CLI::Range(0.05, 86400.0));
  made->add_option("--count", top.count, "stop after so many samples");
  add_connection(*made, top);
}

void add_writers(CLI::App &pool, std::function<int()> &chosen) {
  CLI::App *made = nullptr;
  auto &copy = add<pool_copy_options>(
      pool, "cp", "copy between files and pools, and from pool to pool", pool_copy, chosen, made);
  made->add_option("SOURCE... TARGET", copy.words,
                   "paths, pool://host[:port]/namespace/object, - for standard input or output")
      ->required()
      ->expected(2, CLI::detail::expected_max_vector_size);
  made->add_flag("-r,--recursive", copy.recursive, "folders, and all objects under a prefix");
  made->add_flag("-n,--no-replace", copy.no_replace, "fail where the target exists");
  made->add_flag("-q,--quiet", copy.quiet, "no progress, no summary");
  made->add_flag("--evictable", copy.evictable, "a full pool may drop the new objects");
  made->add_flag("--pinned", copy.pinned, "the new objects are never dropped to make room");
  add_durable(*made, copy.durable);
  add_version(*made, copy.version);
  add_connection(*made, copy);

  auto &move = add<pool_move_options>(pool, "mv", "give objects other names in their namespace",
                                      pool_move, chosen, made);
  made->add_option("SOURCE... TARGET", move.words, url_help)
      ->required()
      ->expected(2, CLI::detail::expected_max_vector_size);
  made->add_flag("-n,--no-replace", move.no_replace, "fail where the target exists");
  add_durable(*made, move.durable);
  add_connection(*made, move);

  auto &remove = add<pool_remove_options>(pool, "rm", "remove objects", pool_remove, chosen, made);
  made->add_option("URL", remove.urls, url_help)->required();
  made->add_flag("-r,--recursive", remove.recursive,
                 "all objects under a prefix; of a namespace: all");
  made->add_flag("-f,--force", remove.force, "what is not there is no failure");
  add_durable(*made, remove.durable);
  add_connection(*made, remove);

  auto &bench = add<pool_bench_options>(pool, "bench", "how fast objects are put and got from here",
                                        pool_bench, chosen, made);
  made->add_option("URL", bench.url, "pool://host[:port]/namespace[/prefix]")->required();
  made->add_option("--sizes", bench.sizes, "bytes of the objects")->capture_default_str();
  made->add_option("--seconds", bench.seconds, "for each size and direction")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 3600.0));
  add_durable(*made, bench.durable);
  add_connection(*made, bench);
}

void add_daemon(CLI::App &pool, std::function<int()> &chosen) {
  CLI::App *const key = pool.add_subcommand("key", "keys of clients");
  key->require_subcommand(1);
  CLI::App *made = nullptr;
  auto &fresh = add<pool_key_options>(
      *key, "new", "a line for the daemon's key file and the client's", pool_key_new, chosen, made);
  made->add_option("--namespaces", fresh.spaces, "that the client may use: a,b; * for all")
      ->required();
  made->add_flag("--read-only", fresh.read_only, "the client may not write");
  made->add_option("--id", fresh.id, "name of the key; otherwise a random one");
  made->add_option("--output", fresh.output, "make this file, mode 0600, and print nothing");

  CLI::App *const serve = pool.add_subcommand("serve", "run tanada-poold, with its arguments");
  serve->prefix_command();
  serve->set_help_flag();
  serve->callback([serve, &chosen] {
    chosen = [serve] {
      return pool_serve(serve->remaining());
    };
  });
}

}  // namespace

void add_pool(CLI::App &app, std::function<int()> &chosen) {
  CLI::App *const pool = app.add_subcommand("pool", "the memory pool");
  pool->require_subcommand(1);
  // These commands say themselves what fails; the library's warnings would be the same lines again.
  pool->preparse_callback([](size_t) { ::setenv("TND_LOG", "error", 0); });
  add_readers(*pool, chosen);
  add_writers(*pool, chosen);
  add_daemon(*pool, chosen);
}

}  // namespace tanada::command
