// cmd/tanada/pool_commands.cc: declares the options of `tanada pool`.
#include "pool_commands.hpp"

#include <CLI/CLI.hpp>

#include "core/base/config.hpp"

namespace tanada::command {
namespace {

constexpr const char *url_help = "pool://host[:port]/namespace/object";
constexpr const char *server_help = "name of the server, as status prints it";

// Adds a subcommand that calls `run` with its options, which live as long as the program.
template <class Options>
Options &add(CLI::App &parent,
             const char *name,
             const char *help,
             int (*run)(const Options &),
             std::function<int()> &chosen,
             CLI::App *&command) {
  auto const options = std::make_shared<Options>();
  command = parent.add_subcommand(name, help);
  command->callback([options, run, &chosen] {
    chosen = [options, run] {
      return run(*options);
    };
  });
  command->add_flag("--json", options->json, "print JSON");
  return *options;
}

// Durations have the units that settings have, too: "4s" becomes 4.
std::string to_seconds(std::string &text) {
  if (auto const parsed = parse_duration_ns(text); parsed.ok())
    text = std::to_string(double(parsed.value()) / 1e9);
  return {};
}

void add_connection(CLI::App &command, pool_options &options) {
  command
      .add_option("--timeout",
                  options.timeout_s,
                  "time limit of a call in seconds, or with a unit: 500ms; default: "
                  "TND_POOL_TIMEOUT, or 30")
      ->check(CLI::Range(0.001, 1e6))
      ->transform(CLI::Validator{to_seconds, "", "duration"});
  command.add_option(
      "--key-file", options.key_file, "this client's key, mode 0600; default: TND_POOL_KEY_FILE");
}

void add_durable(CLI::App &command, bool &durable) {
  command.add_flag("--durable", durable, "return when the change is durable in the pool's backing");
}

void add_version(CLI::App &command, uint64_t &version) {
  command.add_option("--version", version, "read this version of an object, not the newest")
      ->check(CLI::PositiveNumber);
}

void add_readers(CLI::App &pool, std::function<int()> &chosen) {
  CLI::App *command = nullptr;
  auto &list = add<pool_list_options>(
      pool, "ls", "objects whose names begin with a prefix", pool_list, chosen, command);
  command->add_option("URL", list.url, "pool://host[:port]/namespace[/prefix]")->required();
  command->add_option("-d,--delimiter",
                      list.delimiter,
                      "list names that contain it after the prefix once, up to it: / for a folder");
  add_connection(*command, list);

  command->add_flag("--one-server",
                    list.one_server,
                    "namespaces of the server that the URL names, not of its whole cluster");

  auto &stat = add<pool_stat_options>(
      pool,
      "stat",
      "attributes of an object; for a namespace, of the pool and the connection",
      pool_stat,
      chosen,
      command);
  command->add_option("URL", stat.url, "pool://host[:port]/namespace[/object]")->required();
  add_version(*command, stat.version);
  add_connection(*command, stat);

  auto &cat = add<pool_cat_options>(
      pool, "cat", "the bytes of objects on standard output", pool_cat, chosen, command);
  command->add_option("URL", cat.urls, url_help)->required();
  add_version(*command, cat.version);
  add_connection(*command, cat);

  auto &top = add<pool_top_options>(
      pool, "top", "live view of a pool; q ends it", pool_top, chosen, command);
  command->add_option("URL", top.url, "pool://host[:port]/namespace")->required();
  command->add_option("--period", top.period_s, "seconds between samples")
      ->check(CLI::Range(0.05, 86400.0));
  command->add_option("--count", top.count, "stop after this many samples");
  add_connection(*command, top);
}

void add_writers(CLI::App &pool, std::function<int()> &chosen) {
  CLI::App *command = nullptr;
  auto &copy = add<pool_copy_options>(pool,
                                      "cp",
                                      "copy between files and pools, and from pool to pool",
                                      pool_copy,
                                      chosen,
                                      command);
  command
      ->add_option("SOURCE... TARGET",
                   copy.arguments,
                   "paths, pool://host[:port]/namespace/object, - for standard input or output")
      ->required()
      ->expected(2, CLI::detail::expected_max_vector_size);
  command->add_flag("-r,--recursive", copy.recursive, "folders, and all objects under a prefix");
  command->add_flag("-n,--no-replace", copy.no_replace, "fail where the target exists");
  command->add_flag("-q,--quiet", copy.quiet, "no progress, no summary");
  command->add_flag("--evictable", copy.evictable, "a full pool may evict the new objects");
  command->add_flag("--pinned", copy.pinned, "the new objects are never evicted");
  add_durable(*command, copy.durable);
  add_version(*command, copy.version);
  add_connection(*command, copy);

  auto &move = add<pool_move_options>(
      pool, "mv", "rename objects within their namespace", pool_move, chosen, command);
  command->add_option("SOURCE... TARGET", move.arguments, url_help)
      ->required()
      ->expected(2, CLI::detail::expected_max_vector_size);
  command->add_flag("-n,--no-replace", move.no_replace, "fail where the target exists");
  add_durable(*command, move.durable);
  add_connection(*command, move);

  auto &remove =
      add<pool_remove_options>(pool, "rm", "remove objects", pool_remove, chosen, command);
  command->add_option("URL", remove.urls, url_help)->required();
  command->add_flag(
      "-r,--recursive", remove.recursive, "all objects under a prefix, or of a namespace");
  command->add_flag("-f,--force", remove.force, "ignore objects that do not exist");
  add_durable(*command, remove.durable);
  add_connection(*command, remove);

  auto &bench = add<pool_bench_options>(
      pool, "bench", "measure puts and gets of objects", pool_bench, chosen, command);
  command->add_option("URL", bench.url, "pool://host[:port]/namespace[/prefix]")->required();
  command->add_option("--sizes", bench.sizes, "bytes of the objects")->capture_default_str();
  command->add_option("--seconds", bench.seconds, "for each size and direction")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 3600.0));
  add_durable(*command, bench.durable);
  add_connection(*command, bench);
}

void add_cluster(CLI::App &pool, std::function<int()> &chosen) {
  CLI::App *const cluster = pool.add_subcommand("cluster", "the servers of a cluster");
  cluster->require_subcommand(1);
  CLI::App *command = nullptr;
  auto const add_url = [&](pool_cluster_options &options) {
    command->add_option("URL", options.url, "pool://host[:port][,host[:port]...]")->required();
    add_connection(*command, options);
  };
  add_url(add<pool_cluster_options>(*cluster,
                                    "status",
                                    "servers, and copies that are missing",
                                    pool_cluster_status,
                                    chosen,
                                    command));
  auto &drain = add<pool_cluster_options>(*cluster,
                                          "drain",
                                          "let a server give everything to the others",
                                          pool_cluster_drain,
                                          chosen,
                                          command);
  add_url(drain);
  command->add_option("SERVER", drain.server, server_help)->required();
  auto &added = add<pool_cluster_options>(*cluster,
                                          "add",
                                          "let a drained server have a share again",
                                          pool_cluster_add,
                                          chosen,
                                          command);
  add_url(added);
  command->add_option("SERVER", added.server, server_help)->required();
  auto &removed = add<pool_cluster_options>(*cluster,
                                            "remove",
                                            "forget a server that was drained or lost",
                                            pool_cluster_remove,
                                            chosen,
                                            command);
  add_url(removed);
  command->add_option("SERVER", removed.server, server_help)->required();
  command->add_flag("--force", removed.is_forced, "also if it may have the only copy of something");
  add_url(add<pool_cluster_options>(*cluster,
                                    "clear-lost",
                                    "count no partition as lost any more",
                                    pool_cluster_clear,
                                    chosen,
                                    command));
  auto &setting = add<pool_cluster_options>(*cluster,
                                            "set",
                                            "set how large objects of a namespace are kept",
                                            pool_cluster_set,
                                            chosen,
                                            command);
  add_url(setting);
  command->add_option("NAMESPACE", setting.space, "a namespace of the cluster")->required();
  command
      ->add_option("--erasure",
                   setting.erasure,
                   "K+M: new large objects have K data and M parity fragments a group; off: copies")
      ->required();
}

void add_daemon(CLI::App &pool, std::function<int()> &chosen) {
  CLI::App *const key = pool.add_subcommand("key", "keys of clients");
  key->require_subcommand(1);
  CLI::App *command = nullptr;
  auto &fresh = add<pool_key_options>(*key,
                                      "new",
                                      "a line for the daemon's key file and the client's",
                                      pool_key_new,
                                      chosen,
                                      command);
  command->add_option("--namespaces", fresh.spaces, "namespaces of the client: a,b; * for all")
      ->required();
  command->add_flag("--read-only", fresh.read_only, "the client may not write");
  command->add_option("--id", fresh.id, "name of the key; default: a random one");
  command->add_option("--output", fresh.output, "create this file, mode 0600, and print nothing");

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
  // These commands print their errors, which the library's warnings would repeat.
  pool->preparse_callback([](size_t) { ::setenv("TND_LOG", "error", 0); });
  add_readers(*pool, chosen);
  add_writers(*pool, chosen);
  add_cluster(*pool, chosen);
  add_daemon(*pool, chosen);
}

}  // namespace tanada::command
