// products/pool/web/report.hpp: what a daemon tells about itself, for metrics and for its page.
// Sizes in bytes.
#pragma once

#include <tanada/pool.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "products/pool/path_name.hpp"

namespace tanada::pool {

inline constexpr size_t report_path_count = TND_POOL_PATH_COUNT;

struct pool_report {
  struct space {  // a namespace
    std::string name;
    uint64_t used = 0, object_count = 0;
    uint64_t quota = 0;  // 0: none
    // Memory that is bound to it, used or not; no other namespace can have it.
    uint64_t owned = 0;
    uint64_t segment_count = 0;  // of that memory; 0: of a file
  };
  struct client {
    std::string peer;   // its address, as the daemon logs it
    std::string space;  // namespace
    tnd_pool_path path = TND_POOL_PATH_TCP;
    uint64_t written_size = 0, read_size = 0;
    uint64_t connected_ns = 0;  // for so long
  };
  struct transfer {
    uint64_t written_size = 0, read_size = 0;
  };

  std::string backing;  // "dram", "file", "flash"
  uint64_t capacity = 0;
  uint64_t used = 0;   // objects that are being written included
  uint64_t owned = 0;  // bound to namespaces, used or not
  uint64_t object_count = 0;
  std::vector<space> spaces;
  std::vector<client> clients;
  std::array<transfer, report_path_count>
      transfers{};  // by tnd_pool_path; of all clients there ever were
  uint64_t committed_size = 0;
  uint64_t commits = 0, opens = 0, evictions = 0, errors = 0;
  std::vector<std::pair<std::string, uint64_t>>
      errors_by_status;  // names of statuses; their sum is `errors`
  uint64_t refused = 0;  // connections that were not let in
  uint64_t uptime_ns = 0;

  uint64_t written_size() const noexcept;
  uint64_t read_size() const noexcept;
};

// Called by several threads at a time.
using pool_reporter = std::function<pool_report()>;

// Prometheus text format 0.0.4. Clients are counted, not listed: a label for each would be a series
// for each.
std::string report_metrics(const pool_report &report);

// What the page reads: at most 200 clients, and how many there are.
std::string report_json(const pool_report &report);

}  // namespace tanada::pool
