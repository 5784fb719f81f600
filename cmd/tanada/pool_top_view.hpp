// cmd/tanada/pool_top_view.hpp: formats the difference of two samples for `tanada pool top`.
#pragma once

#include <tanada/pool.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tanada::command {

// Rates in the daemon's time between two samples. All 0 for the first sample and after a restart of
// the daemon.
struct pool_rates {
  double written = 0, read = 0;                              // bytes per second
  double commits = 0, opens = 0, evictions = 0, errors = 0;  // per second
};

pool_rates rates_between(const tnd_pool_statistics *previous, const tnd_pool_statistics &current);

// Draws the last `width` values in eight steps of height, scaled to the largest.
std::string sparkline(const std::vector<double> &values, size_t width);

// A server of a cluster.
struct top_server {
  std::string name;
  tnd_pool_statistics current;
  pool_rates rates;
};

pool_rates sum_of(const std::vector<top_server> &servers);

// The state of a cluster.
struct top_cluster {
  tnd_pool_cluster sums;
  uint32_t up_count = 0, draining_count = 0, away_count = 0;  // servers
  bool is_whole() const noexcept {
    return sums.missing_count == 0 && sums.offline_count == 0;
  }
};

struct top_view {
  std::string url;
  tnd_pool_connection connection;
  tnd_pool_statistics current;
  pool_rates rates;
  std::vector<pool_rates> history;  // oldest first, including this one
  uint64_t owned = 0;               // bytes bound to the namespace
  std::vector<top_server> servers = {};  // of a cluster, whose sums `current` and `rates` are
  std::optional<top_cluster> cluster = {};
};

// Lines of at most `width` columns, each with a line break.
std::string top_text(const top_view &view, unsigned width);
nlohmann::json top_json(const top_view &view);

}  // namespace tanada::command
