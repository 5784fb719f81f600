// cmd/tanada/pool_members.cc: all servers of a cluster.
#include "pool_members.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tanada::command {
namespace {

struct member_place {
  std::string name, address;
};

int add_place(void *context, const tnd_pool_server *server) {
  if (server->state != TND_POOL_SERVER_AWAY && server->address[0] != 0)
    static_cast<std::vector<member_place> *>(context)->push_back({server->name, server->address});
  return 0;
}

}  // namespace

tnd_status connect_members(tnd_pool *pool,
                           const tnd_pool_config &config,
                           std::vector<pool_member> &members) {
  std::vector<member_place> places;
  tnd_status const listed = tnd_pool_get_cluster(pool, nullptr, add_place, &places);
  if (listed == -EOPNOTSUPP)
    return TND_OK;
  tnd_pool_config of_members = config;
  of_members.flags |= TND_POOL_NO_NAMESPACE;
  for (member_place &place : places) {
    tnd_pool *connected = nullptr;
    std::string const url = "pool://" + place.address;
    tnd_status const code = tnd_pool_connect(url.c_str(), &of_members, &connected);
    pool_member added{std::move(place.name), pool_connection{connected}, code};
    if (code != TND_OK)
      added.reason = tnd_last_message();
    members.push_back(std::move(added));
  }
  return listed;
}

tnd_status count_members(tnd_pool *pool,
                         const tnd_pool_config &config,
                         std::vector<member_counts> &counts,
                         std::vector<std::string> &problems) {
  std::vector<pool_member> members;
  if (tnd_status const code = connect_members(pool, config, members); code != TND_OK)
    return code;
  for (pool_member &member : members) {
    member_counts entry{member.name, {}};
    entry.counts.struct_size = sizeof entry.counts;
    if (member.code == TND_OK) {
      member.code = tnd_pool_get_statistics(member.connection.get(), &entry.counts);
      member.reason = member.code == TND_OK ? "" : tnd_last_message();
    }
    if (member.code == TND_OK)
      counts.push_back(std::move(entry));
    else
      problems.push_back("server " + member.name + ": " + member.reason);
  }
  return TND_OK;
}

void sum_counts(const std::vector<member_counts> &members, tnd_pool_statistics &sum) {
  if (members.empty())
    return;
  tnd_pool_statistics total{};
  total.struct_size = sizeof total;
  total.space_used = sum.space_used;
  total.space_object_count = sum.space_object_count;
  total.space_quota = sum.space_quota;
  for (auto const &[name, counts] : members) {
    // Without the connection that has asked for the counters.
    total.client_count += counts.client_count - std::min(counts.client_count, 1u);
    for (uint64_t tnd_pool_statistics::*field : {&tnd_pool_statistics::capacity,
                                                 &tnd_pool_statistics::used,
                                                 &tnd_pool_statistics::object_count,
                                                 &tnd_pool_statistics::written_size,
                                                 &tnd_pool_statistics::read_size,
                                                 &tnd_pool_statistics::commits,
                                                 &tnd_pool_statistics::opens,
                                                 &tnd_pool_statistics::evictions,
                                                 &tnd_pool_statistics::errors})
      total.*field += counts.*field;
    total.uptime_ns = std::max(total.uptime_ns, counts.uptime_ns);
  }
  sum = total;
}

}  // namespace tanada::command
