// products/pool/web/report.hpp: the daemon's report on itself, for metrics and for its page. Sizes
// are in bytes.
#pragma once

#include <tanada/pool.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
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
    uint64_t quota = 0;  // 0: no quota
    // Memory bound to the namespace, used or not; no other namespace can have it.
    uint64_t owned = 0;
    uint64_t segment_count = 0;  // segments of that memory; 0: the memory is part of a file
  };
  struct client {
    std::string peer;   // its address, as the daemon logs it
    std::string space;  // namespace
    tnd_pool_path path = TND_POOL_PATH_TCP;
    uint64_t written_size = 0, read_size = 0;
    uint64_t connected_ns = 0;  // duration of the connection
  };
  struct transfer {
    uint64_t written_size = 0, read_size = 0;
  };

  // The cluster that the daemon is a server of, as this server knows it.
  struct cluster_server {
    std::string name, domain, state, problem;  // state: "up", "draining" or "away"
    uint32_t primary_count = 0, copy_count = 0, joining_count = 0;
  };
  struct cluster_state {
    uint32_t copies = 0, partition_count = 0;
    uint32_t missing_count = 0, offline_count = 0, lost_count = 0;
    uint64_t silence_ns = 0;     // since etcd confirmed it; 0: it is new
    uint64_t repaired_size = 0;  // bytes that this server has sent to servers which lacked them
    std::vector<cluster_server> servers;
  };

  std::string backing;     // "dram", "file", "flash"
  std::string durability;  // "none", "msync", "cache-flush", "log": how objects become durable
  std::optional<cluster_state> cluster = {};
  uint64_t capacity = 0;  // for objects: of the memory, or of the log that they leave it for
  uint64_t used = 0;      // includes objects that are being written
  uint64_t memory_capacity = 0, memory_used = 0;
  uint64_t cold_count = 0, cold_size = 0;  // objects that are not in memory, and their bytes
  uint64_t demotions = 0, promotions = 0;  // objects that left memory, and that came back
  uint64_t owned = 0;                      // bound to namespaces, used or not
  uint64_t ring_size = 0;                  // of clients' rings, in addition to the capacity
  uint64_t object_count = 0;
  std::vector<space> spaces;
  std::vector<client> clients;
  std::array<transfer, report_path_count>
      transfers{};  // by tnd_pool_path; of all clients since the daemon started
  uint64_t committed_size = 0;
  uint64_t commits = 0, opens = 0, evictions = 0, errors = 0;
  std::vector<std::pair<std::string, uint64_t>>
      errors_by_status;  // names of statuses; their sum is `errors`
  uint64_t refused = 0;  // connections that were refused
  // Requests of one kind: counts of values by upper bounds, the last one of those above all.
  struct request_counts {
    std::string name;
    std::vector<uint64_t> duration_counts, size_counts;
    uint64_t duration_ns_sum = 0, size_sum = 0;
  };
  std::vector<uint64_t> duration_bounds_ns, size_bounds;
  std::vector<request_counts> requests;
  uint64_t uptime_ns = 0;

  uint64_t written_size() const noexcept;
  uint64_t read_size() const noexcept;
};

// Called by several threads at a time.
using pool_reporter = std::function<pool_report()>;

// Prometheus text format 0.0.4. Clients are counted, not listed, because a label for each client
// would create one time series for each.
std::string report_metrics(const pool_report &report);

// The JSON that the page reads: at most 200 clients, and the number of all clients.
std::string report_json(const pool_report &report);

}  // namespace tanada::pool
