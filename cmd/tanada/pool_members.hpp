// cmd/tanada/pool_members.hpp: all servers of a cluster, for commands that show a pool as a whole.
#pragma once

#include <string>
#include <vector>

#include "pool_session.hpp"

namespace tanada::command {

// A server of a cluster that runs.
struct pool_member {
  std::string name;
  pool_connection connection;  // without a namespace; null: it failed with `code`
  tnd_status code = TND_OK;
  std::string reason = {};  // of `code`
};

// Connects to each server of the cluster. Empty: the pool is one server. TND_OK, or why the servers
// are not known.
tnd_status connect_members(tnd_pool *pool,
                           const tnd_pool_config &config,
                           std::vector<pool_member> &members);

struct member_counts {
  std::string name;
  tnd_pool_statistics counts;
};

// The counters of each server of the cluster that answers, and `problems` of the others. Empty: the
// pool is one server.
tnd_status count_members(tnd_pool *pool,
                         const tnd_pool_config &config,
                         std::vector<member_counts> &counts,
                         std::vector<std::string> &problems);

// The counters of the pool are the sums of its servers'. Those of the namespace stay.
void sum_counts(const std::vector<member_counts> &members, tnd_pool_statistics &sum);

}  // namespace tanada::command
