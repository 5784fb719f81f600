// Sequences of events that find certain mistakes, and that random events seldom have in this order.
#include <algorithm>
#include <utility>

#include "sim/cluster_harness.hpp"

namespace tanada::test {

namespace {

constexpr uint64_t lease_ns = 1'000 * ms, rest_ns = 1'500 * ms;
// Until another server serves: successors compare hundreds of partitions.
constexpr uint64_t takeover_ns = 3'000 * ms;
constexpr size_t copies_min = 3;

}  // namespace

// The servers of a partition in etcd's map, the primary first. Empty: some of them do not run.
std::vector<size_t> cluster_run::replicas_of(uint32_t partition) {
  std::vector<size_t> indices;
  auto const entry = store_.entries().find("/tanada/test/map");
  auto const map = entry == store_.entries().end() ? result<poold::cluster_map>{status::no_entry}
                                                   : poold::decode_map(entry->second.value);
  if (!map.ok())
    return indices;
  for (const poold::replica &run : map.value().partitions[partition].replicas) {
    size_t const index = std::stoul(run.server.substr(1));
    if (!is_up(index))
      return {};
    indices.push_back(index);
  }
  return indices;
}

void cluster_run::play() {
  if (world_.now_ns() < play_.due_ns)
    return;
  if (play_.step == 0) {
    play_.servers = replicas_of(poold::partition_of(space_of(0)));
    if (play_.servers.size() < copies_min || lost_count() > 0)
      return;
  }
  if (setting_.weather == cluster_weather::exiles)
    play_exile();
  else if (setting_.weather == cluster_weather::successions)
    play_succession();
}

// The primary does not reach etcd. Before another server takes over, one client is cut off, so that
// the primary has no change that is not settled. It goes to the other server, and a client that
// only reads may stay.
void cluster_run::play_exile() {
  size_t const primary = play_.servers[0];
  switch (play_.step++) {
    case 0:
      set_etcd(primary, false);
      play_.due_ns = world_.now_ns() + lease_ns / 2;
      break;
    case 1:
      set_cut(primary, server_count_, true);
      play_.due_ns = world_.now_ns() + takeover_ns;
      break;
    default:
      set_etcd(primary, true);
      cuts_.clear();
      play_.due_ns = world_.now_ns() + rest_ns;
      play_.step = 0;
      break;
  }
}

// One backup gets changes that the other one does not have when the primary is lost. It becomes
// primary, and is lost before the other one may have them.
void cluster_run::play_succession() {
  size_t const primary = play_.servers[0], next = play_.servers[1], last = play_.servers[2];
  switch (play_.step++) {
    case 0:
      set_cut(primary, last, true);
      play_.due_ns = world_.now_ns() + world_.random.between(20 * ms, 100 * ms);
      break;
    case 1:
      crash(primary);
      set_cut(next, last, true);
      play_.due_ns = world_.now_ns() + takeover_ns;
      break;
    case 2:
      crash(next);
      cuts_.clear();
      play_.due_ns = world_.now_ns() + takeover_ns;
      break;
    default:
      for (size_t const index : {primary, next})
        if (!is_up(index))
          start(index);
      play_.due_ns = world_.now_ns() + rest_ns;
      play_.step = 0;
      break;
  }
}

// Another namespace needs memory, so that objects leave it.
void cluster_run::need_memory(server &pumped) {
  if (pumped.cold == nullptr || !world_.random.chance(2))
    return;
  uint64_t const entered = pumped.objects->open_restored_namespace("other");
  (void)pumped.objects->create_object(
      entered,
      cluster_pool_size - world_.random.below(cluster_pool_size / 16),
      0,
      poold::allocation::may_wait);
}

}  // namespace tanada::test
