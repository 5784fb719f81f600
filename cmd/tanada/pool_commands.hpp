// cmd/tanada/pool_commands.hpp: the commands of `tanada pool`. Each prints and returns the exit
// status.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pool_session.hpp"

namespace CLI {
class App;
}

namespace tanada::command {

// Adds `pool` and its subcommands. The selected one is stored in `chosen`.
void add_pool(CLI::App &app, std::function<int()> &chosen);

struct pool_list_options : pool_options {
  std::string url;
  bool one_server = false;  // namespaces of the named server only, not of its cluster
  std::string delimiter;  // "": none
};
int pool_list(const pool_list_options &options);

struct pool_stat_options : pool_options {
  std::string url;
  uint64_t version = 0;  // 0: the newest
};
int pool_stat(const pool_stat_options &options);

struct pool_copy_options : pool_options {
  std::vector<std::string> arguments;  // sources, then the target
  bool recursive = false, no_replace = false, durable = false, evictable = false, pinned = false,
       quiet = false;
  uint64_t version = 0;
};
int pool_copy(const pool_copy_options &options);

struct pool_cat_options : pool_options {
  std::vector<std::string> urls;
  uint64_t version = 0;
};
int pool_cat(const pool_cat_options &options);

struct pool_move_options : pool_options {
  std::vector<std::string> arguments;  // sources, then the target
  bool no_replace = false, durable = false;
};
int pool_move(const pool_move_options &options);

struct pool_remove_options : pool_options {
  std::vector<std::string> urls;
  bool recursive = false, force = false, durable = false;
};
int pool_remove(const pool_remove_options &options);

struct pool_top_options : pool_options {
  std::string url;
  double period_s = 1;
  uint32_t count = 0;  // samples; 0: until q or a signal
};
int pool_top(const pool_top_options &options);

struct pool_bench_options : pool_options {
  std::string url;
  std::string sizes = "4KiB,1MiB,64MiB";
  double seconds = 1;  // for each size and direction
  bool durable = false;
};
int pool_bench(const pool_bench_options &options);

struct pool_cluster_options : pool_options {
  std::string url;
  std::string server;      // of `drain`, `add` and `remove`
  bool is_forced = false;  // of `remove`
  // Of `set`: the namespace, and "K+M" or "off".
  std::string space, erasure;
};
int pool_cluster_status(const pool_cluster_options &options);
int pool_cluster_drain(const pool_cluster_options &options);
int pool_cluster_add(const pool_cluster_options &options);
int pool_cluster_remove(const pool_cluster_options &options);
int pool_cluster_clear(const pool_cluster_options &options);
int pool_cluster_set(const pool_cluster_options &options);

struct pool_key_options {
  bool json = false;
  std::string id;      // empty: a random one
  std::string spaces;  // "a,b"; "*": all
  bool read_only = false;
  std::string output;  // a file to make; empty: standard output
};
int pool_key_new(const pool_key_options &options);

// Replaces this process by tanada-poold. Returns only if that fails.
int pool_serve(const std::vector<std::string> &arguments);

}  // namespace tanada::command
