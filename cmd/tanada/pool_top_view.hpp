// cmd/tanada/pool_top_view.hpp: what `tanada pool top` shows of two samples.
#pragma once

#include <tanada/pool.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tanada::command {

// A second of the daemon between two samples; all 0 for the first and after the daemon started
// anew.
struct pool_rates {
  double written = 0, read = 0;                              // bytes a second
  double commits = 0, opens = 0, evictions = 0, errors = 0;  // a second
};

pool_rates rates_between(const tnd_pool_statistics *before, const tnd_pool_statistics &now);

// Eight steps of height, the largest value at the top; the last `width` values.
std::string sparkline(const std::vector<double> &values, size_t width);

struct top_view {
  std::string url;
  tnd_pool_connection connection;
  tnd_pool_statistics now;
  pool_rates rates;
  std::vector<pool_rates> history;  // oldest first, this one included
  uint64_t owned = 0;               // bytes that are bound to the namespace
};

// Lines of at most `width` columns, each ended.
std::string top_text(const top_view &of, unsigned width);
nlohmann::json top_json(const top_view &of);

}  // namespace tanada::command
