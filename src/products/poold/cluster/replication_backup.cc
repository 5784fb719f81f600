// A server as the backup of partitions: what clients may read of it, and how the primary lets it
// go.
#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/cluster/replication.hpp"

namespace tanada::poold {

// The term in which this server is the partition's backup, with a lease. As long as that holds, no
// other server removes it from the map, except for the primary, which lets its copy begin anew
// before that. So the map that the server knows is good enough, even if it is not the newest.
result<uint64_t> replication::backup_term(uint32_t partition) const {
  TND_ASSERT(partition <= local_partition);
  auto const map = map_.load();
  bool const is_backup =
      map != nullptr && partition != local_partition && is_backup_in(map->partitions[partition]);
  if (!is_backup) {
    set_last_message("the server has no complete copy of this namespace");
    return status::stale;
  }
  if (options_.clock->now_ns() < options_.lease_end_ns())
    return map->partitions[partition].term;
  set_last_message("the server has lost its lease: it cannot reach the cluster's etcd");
  return status::again;
}

bool replication::is_backup_in(const partition_record &record) const {
  return std::find(record.replicas.begin() + 1, record.replicas.end(), options_.self) !=
         record.replicas.end();
}

status replication::check_backup(uint32_t partition) const {
  return backup_term(partition).error();
}

bool replication::may_reply_as_backup(uint32_t partition) const {
  auto const map = map_.load();
  return map != nullptr && partition != local_partition &&
         is_backup_in(map->partitions[partition]) &&
         options_.clock->now_ns() < options_.lease_end_ns();
}

status replication::read_as_backup(uint32_t partition,
                                   const std::string &name,
                                   const std::function<status()> &read) {
  return backups_.read(partition, name, [&] { return backup_term(partition); }, read);
}

void replication::begin_copy(const wire::pool::replica_request &place) {
  backups_.begin(place);
}

void replication::change_copy(const wire::pool::replica_position &change,
                              uint64_t settled,
                              std::span<const std::string> names) {
  backups_.record_change(change, names);
  backups_.settle({change.place, settled});
}

void replication::mark_copy(const wire::pool::replica_position &mark) {
  backups_.mark(mark);
}

void replication::settle_copy(const wire::pool::replica_position &settled) {
  backups_.settle(settled);
}

// ---- the primary's part

// Remove backups that the map has beyond its copies. Clients may read from them, so each has to
// stop that first.
bool replication::remove_surplus(cluster_map &candidate,
                                 uint32_t partition,
                                 const std::vector<server_presence> &present) {
  TND_ASSERT(mutex_.is_held());
  auto &links = partitions_[partition].links;
  for (auto &[server, link] : links)
    link.is_to_go = false;
  bool is_edited = false;
  for (const replica &run : surplus_replicas(candidate.partitions[partition],
                                             desired_servers(partition, candidate.copies, present),
                                             candidate.copies)) {
    auto const link = links.find(run.server);
    if (link == links.end())
      continue;
    link->second.is_to_go = true;
    if (link->second.has_released)
      is_edited |= remove_replica(candidate, partition, run);
  }
  return is_edited;
}

std::vector<replication::assignment> replication::to_release(const replica &peer) const {
  lock_guard lock{mutex_};
  std::vector<assignment> assignments;
  if (find_queue(peer) == nullptr)
    return assignments;
  for (uint32_t i = 0; i < partition_count; i++) {
    auto const link = partitions_[i].links.find(peer.server);
    bool const is_due = link != partitions_[i].links.end() && link->second.is_to_go &&
                        !link->second.has_released && link->second.stage == link_stage::synced;
    if (is_due)
      assignments.push_back({i, partitions_[i].term});
  }
  return assignments;
}

void replication::finish_release(const replica &peer, const assignment &target) {
  {
    lock_guard lock{mutex_};
    partition_state &state = partitions_[target.partition];
    auto const link = state.links.find(peer.server);
    bool const is_current = find_queue(peer) != nullptr && state.is_primary &&
                            state.term == target.term && link != state.links.end() &&
                            link->second.stage == link_stage::synced;
    if (!is_current)
      return;
    link->second.has_released = true;
    has_edits_.store(true);
  }
  options_.wake();
}

std::vector<wire::pool::replica_position> replication::take_settled(const replica &peer) {
  lock_guard lock{mutex_};
  std::vector<wire::pool::replica_position> notices;
  if (find_queue(peer) == nullptr)
    return notices;
  for (uint32_t i = 0; i < partition_count; i++) {
    auto const link = partitions_[i].links.find(peer.server);
    uint64_t const settled = partitions_[i].settled.load();
    bool const is_due = link != partitions_[i].links.end() &&
                        link->second.stage == link_stage::synced && link->second.reported < settled;
    if (!is_due)
      continue;
    link->second.reported = settled;
    notices.push_back({{i, partitions_[i].term}, settled});
  }
  return notices;
}

}  // namespace tanada::poold
