// The changes of a cluster's partitions, their acknowledgments, and the links that carry them.
#include "products/poold/cluster/replication.hpp"

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/catalog.hpp"

namespace tanada::poold {

replication::replication(options settings)
    : options_{std::move(settings)},
      repair_{options_.repair_bandwidth},
      fragments_{options_.sweep_ns} {
  TND_ASSERT(options_.lease_end_ns && options_.wake);
}

namespace {

constexpr uint64_t refused_retry_ns = 5'000'000'000;
constexpr size_t repair_count_max = 1024;      // batches in a queue, before a comparison waits
constexpr uint64_t repair_size_max = 4 << 20;  // bytes of objects in them

// Of a batch that a comparison has added.
uint64_t repair_size_of(const replica_batch &batch) {
  uint64_t size = 0;
  for (const change &added : batch.changes)
    if (batch.position == 0 && added.type == change::kind::put)
      size += added.object->metadata.size;
  return size;
}

// For a server that may not have the objects that are renamed yet.
std::vector<change> without_renames(const std::vector<change> &changes) {
  std::vector<change> simple;
  for (const change &source : changes) {
    bool const is_rename = source.type == change::kind::rename;
    if (is_rename && source.name == source.old_name)
      continue;
    simple.push_back(source);
    if (!is_rename)
      continue;
    simple.back().type = change::kind::put;
    simple.back().flags = source.object->flags.load() & flags_of_objects;
    simple.push_back(source);
    simple.back().type = change::kind::remove;
    simple.back().name = source.old_name;
    simple.back().object = nullptr;
    simple.back().reader = nullptr;
  }
  return simple;
}

}  // namespace

void replication::call(const callbacks &due) {
  for (auto const &callback : due)
    callback();
}

// ---- the journal

bool replication::is_congested() const {
  return options_.local != nullptr && options_.local->is_congested();
}

bool replication::is_durable() const {
  return options_.local != nullptr && options_.local->is_durable();
}

// The caller holds the catalog's mutex, so this calls no callback.
void replication::append(std::vector<change> changes,
                         std::vector<object_ref> superseded,
                         journal_callback done) {
  bool const is_local = changes.empty() || changes.front().is_replica;
  if (is_local)
    return append_locally(std::move(changes), std::move(superseded), std::move(done));
  uint32_t const number = partition_of(changes.front().namespace_name);
  if (number == local_partition)
    return append_fragment(std::move(changes), std::move(superseded), done);
  auto added = std::make_shared<group>();
  add_group(number, changes, added, std::move(done));
  options_.wake();
  if (options_.local == nullptr)
    return;
  options_.local->append(
      std::move(changes), std::move(superseded), {[this, number, added](status code) {
        finish_on_disk(number, added, code);
      }});
}

// Give the changes a position, and pass them to the links.
void replication::add_group(uint32_t partition,
                            const std::vector<change> &changes,
                            const std::shared_ptr<group> &added,
                            journal_callback done) {
  lock_guard lock{mutex_};
  needs_settling_.store(true);
  partition_state &state = partitions_[partition];
  if (!state.is_primary) {
    // The namespace went to another server meanwhile, which brings this one up to date.
    if (done)
      deferred_.push_back([done] { done(status::peer_lost); });
    return;
  }
  repair_.note_change(options_.clock->now_ns());
  added->position = state.last.load() + 1;
  state.last.store(added->position);
  added->is_on_disk = !done.waits_for_disk() || options_.local == nullptr;
  for (auto &[server, link] : state.links) {
    if (link.stage == link_stage::detached)
      continue;
    bool const is_complete = link.stage != link_stage::syncing;
    queues_[server].batches.push_back({partition,
                                       state.term,
                                       added->position,
                                       is_complete ? changes : without_renames(changes),
                                       done.waits_for_disk()});
  }
  added->done = std::move(done);
  state.pending.push_back(added);
}

// Fragments are not replicated.
void replication::append_fragment(std::vector<change> changes,
                                  std::vector<object_ref> superseded,
                                  const journal_callback &done) {
  bool const waits = options_.local != nullptr && done.waits_for_disk();
  append_locally(std::move(changes), std::move(superseded), waits ? done : journal_callback{});
  if (waits || !done)
    return;
  {
    lock_guard lock{mutex_};
    deferred_.push_back([done] { done(status::ok); });
  }
  options_.wake();
}

void replication::append_locally(std::vector<change> changes,
                                 std::vector<object_ref> superseded,
                                 journal_callback done) {
  if (options_.local != nullptr && done.waits_for_disk())
    done = {[this, done](status code) {
      finish_replica(done, code);
    }};
  if (options_.local != nullptr)
    return options_.local->append(std::move(changes), std::move(superseded), std::move(done));
  if (!done)
    return;
  {
    lock_guard lock{mutex_};
    deferred_.push_back([done] { done(status::ok); });
  }
  options_.wake();
}

void replication::finish_on_disk(uint32_t partition,
                                 const std::shared_ptr<group> &written,
                                 status code) {
  callbacks due;
  {
    lock_guard lock{mutex_};
    if (!written->is_on_disk)
      written->code = code;
    written->has_failed = !written->is_on_disk && code != status::ok;
    written->is_on_disk = !written->has_failed;
    has_failed_ |= written->has_failed;
    settle(partitions_[partition], due);
  }
  call(due);
}

// Call what waits for positions that all required servers have by now.
void replication::settle(partition_state &state, callbacks &due) {
  TND_ASSERT(mutex_.is_held());
  uint64_t position = state.last.load();
  for (const std::string &server : state.required) {
    auto const link = state.links.find(server);
    position = std::min(position, link == state.links.end() ? 0 : link->second.acknowledged);
  }
  while (!state.pending.empty() && state.pending.front()->position <= position &&
         state.pending.front()->is_on_disk) {
    std::shared_ptr<group> const finished = std::move(state.pending.front());
    state.pending.pop_front();
    state.settled.store(std::max(state.settled.load(), finished->position));
    if (finished->done)
      due.push_back([finished] { finished->done(finished->code); });
  }
  if (state.pending.empty())
    state.settled.store(std::max(state.settled.load(), position));
  std::erase_if(state.waiters, [&](waiter &candidate) {
    bool const is_due = candidate.position <= state.settled.load();
    if (is_due)
      due.push_back(std::move(candidate.callback));
    return is_due;
  });
}

bool replication::progress() {
  callbacks due;
  {
    lock_guard lock{mutex_};
    due.swap(deferred_);
    follow_log(due);
    if (needs_settling_.exchange(false))
      for (partition_state &state : partitions_)
        if (!state.pending.empty() || !state.waiters.empty())
          settle(state, due);
  }
  call(due);
  return has_edits_.exchange(false);
}

bool replication::close() {
  backups_.close();
  lock_guard lock{mutex_};
  is_closed_ = true;
  bool is_settled = true;
  for (partition_state &state : partitions_) {
    state.is_closing = true;
    state.is_open.store(false, std::memory_order_release);
    is_settled &= !state.is_primary || state.pending.empty();
  }
  return is_settled;
}

// ---- the gate

status replication::check_serving(uint32_t partition) const {
  if (partition == local_partition)
    return status::ok;
  TND_ASSERT(partition < partition_count);
  const partition_state &state = partitions_[partition];
  if (state.is_open.load(std::memory_order_acquire) &&
      options_.clock->now_ns() < options_.lease_end_ns())
    return status::ok;
  lock_guard lock{mutex_};
  if (state.is_primary && !state.is_closing) {
    set_last_message(options_.clock->now_ns() < options_.lease_end_ns()
                         ? "the server is being brought up to date"
                         : "the server has lost its lease: it cannot reach the cluster's etcd");
    return status::again;
  }
  set_last_message("another server of the cluster serves this namespace");
  return status::stale;
}

bool replication::may_reply(uint32_t partition) const {
  if (partition == local_partition)
    return true;
  return partitions_[partition].is_primary.load(std::memory_order_acquire) &&
         options_.clock->now_ns() < options_.lease_end_ns();
}

uint64_t replication::term(uint32_t partition) const {
  if (partition == local_partition)
    return 0;
  return partitions_[partition].term.load(std::memory_order_acquire);
}

std::function<uint64_t(const std::string &)> replication::version_tags() const {
  constexpr uint64_t partition_bits = 8;
  static_assert(partition_count == 1 << partition_bits && partition_bits < version_tag_bits);
  return [this](const std::string &namespace_name) {
    uint32_t const partition = partition_of(namespace_name);
    uint64_t const term_count = (uint64_t{1} << (version_tag_bits - partition_bits)) - 1;
    if (partition == local_partition)
      return uint64_t{0};  // differs from all others, whose terms count from 1 here
    return (term(partition) % term_count + 1) << partition_bits | partition;
  };
}

uint64_t replication::last_position(uint32_t partition) const {
  if (partition == local_partition)
    return 0;
  return partitions_[partition].last.load(std::memory_order_acquire);
}

uint64_t replication::settled_position(uint32_t partition) const {
  if (partition == local_partition)
    return 0;
  return partitions_[partition].settled.load(std::memory_order_acquire);
}

void replication::when_settled(uint32_t partition,
                               uint64_t position,
                               std::function<void()> callback) {
  if (partition != local_partition) {
    lock_guard lock{mutex_};
    partition_state &state = partitions_[partition];
    if (state.is_primary && state.settled.load() < position) {
      state.waiters.push_back({position, std::move(callback)});
      return;
    }
  }
  callback();
}

status replication::check_replica(const wire::pool::replica_request &request) const {
  auto const map = map_.load();
  if (request.partition >= partition_count)
    return status::protocol;
  if (map == nullptr)
    return status::again;
  const partition_record &record = map->partitions[request.partition];
  if (request.term != record.term)
    return request.term > record.term ? status::again : status::stale;
  auto const is_self = [&](const replica &run) {
    return run == options_.self;
  };
  bool const is_member = std::any_of(record.replicas.begin(), record.replicas.end(), is_self) ||
                         std::any_of(record.joining.begin(), record.joining.end(), is_self);
  // A server that the map does not name yet may be named by a newer one.
  return is_member && record.replicas.front() != options_.self ? status::ok : status::again;
}

// ---- the map

void replication::apply_map(std::shared_ptr<const cluster_map> map,
                            const std::vector<server_presence> &present) {
  callbacks due;
  uint32_t begun_count = 0, ended_count = 0;
  {
    lock_guard lock{mutex_};
    servers_.clear();
    for (const server_presence &server : present)
      servers_[server.self.server] = server;
    fragments_.set_servers(present);
    if (map != nullptr) {
      auto const before = map_.exchange(map);
      for (uint32_t i = 0; i < partition_count; i++) {
        partition_state &state = partitions_[i];
        const partition_record &record = map->partitions[i];
        bool const is_primary = record.replicas.front() == options_.self;
        if (state.is_primary && (!is_primary || state.term != record.term)) {
          ended_count += !is_primary;
          end_term(state, due);
        }
        if (is_primary && !state.is_primary) {
          begun_count++;
          begin_term(state, record);
        }
        if (is_primary) {
          if (before != nullptr)
            detach_rejoined(state, i, *before, *map);
          if (before != nullptr && map->epoch > before->epoch)
            forget_proposals(state);
          update_links(state, record);
          settle(state, due);
        }
      }
      update_queues();
    }
    has_edits_.store(true);
  }
  if (begun_count + ended_count > 0)
    log(log_level::info,
        "pool: {} partitions are served by this server now, and {} not any more",
        begun_count,
        ended_count);
  call(due);
}

// Proposals that were based on an earlier map have no effect any more.
void replication::forget_proposals(partition_state &state) {
  TND_ASSERT(mutex_.is_held());
  if (std::exchange(state.is_yielding, false))
    state.is_closing = is_closed_;
  for (auto &[server, link] : state.links)
    link.is_proposed = false;
}

void replication::begin_term(partition_state &state, const partition_record &record) {
  TND_ASSERT(mutex_.is_held() && state.pending.empty() && state.links.empty());
  state.is_primary = true;
  state.is_closing = is_closed_;
  state.is_yielding = false;
  state.term = record.term;
  // What this server has is settled once all replicas are synced. Marks until then name this
  // position, so that backups do not show it before.
  state.last.store(state.last.load() + 1);
}

// Changes that are not settled may be lost or may survive, so their callers get an error that
// leaves the outcome open.
void replication::end_term(partition_state &state, callbacks &due) {
  TND_ASSERT(mutex_.is_held() && state.is_primary);
  state.is_open.store(false, std::memory_order_release);
  state.is_primary = false;
  for (const std::shared_ptr<group> &lost : state.pending)
    if (lost->done)
      due.push_back([lost] { lost->done(status::peer_lost); });
  state.pending.clear();
  for (waiter &entry : state.waiters)
    due.push_back(std::move(entry.callback));
  state.waiters.clear();
  state.links.clear();
  state.required.clear();
}

// A server that joins may have left the partition since the map before, and removed its objects: a
// replica of that map certainly has, and where maps were missed any of them may have.
void replication::detach_rejoined(partition_state &state,
                                  uint32_t partition,
                                  const cluster_map &before,
                                  const cluster_map &present) {
  auto const &replicas = before.partitions[partition].replicas;
  bool const has_missed_maps = present.epoch > before.epoch + 1;
  for (const replica &run : present.partitions[partition].joining) {
    bool const has_left = std::find(replicas.begin(), replicas.end(), run) != replicas.end();
    if (has_missed_maps || has_left)
      state.links.erase(run.server);
  }
}

// Keep the links that the map still names. The map's replicas are required, and joining replicas
// from their mark on. The partition opens once all required links are synced.
void replication::update_links(partition_state &state, const partition_record &record) {
  TND_ASSERT(mutex_.is_held() && state.is_primary);
  std::map<std::string, link_state> links;
  state.required.clear();
  bool is_synced = true;
  auto const keep = [&](const replica &run) -> link_state & {
    auto const it = state.links.find(run.server);
    bool const is_known = it != state.links.end() && it->second.run == run.run;
    link_state &link = links[run.server];
    link = is_known ? it->second : link_state{.run = run.run};
    return link;
  };
  for (const replica &run : record.replicas) {
    if (run == options_.self)
      continue;
    is_synced &= keep(run).stage == link_stage::synced;
    state.required.push_back(run.server);
  }
  for (const replica &run : record.joining) {
    const link_state &link = keep(run);
    bool const is_marked = link.stage == link_stage::marking || link.stage == link_stage::synced;
    if (is_marked || link.is_proposed)
      state.required.push_back(run.server);
  }
  state.links = std::move(links);
  if (is_synced && !state.is_closing && may_open(record))
    state.is_open.store(true, std::memory_order_release);
}

// A queue for each server that one of the partitions has a link to.
void replication::update_queues() {
  auto const map = map_.load();
  std::map<std::string, link_queue> queues;
  for (uint32_t i = 0; i < partition_count; i++) {
    if (!partitions_[i].is_primary)
      continue;
    const partition_record &record = map->partitions[i];
    for (const auto *list : {&record.replicas, &record.joining})
      for (const replica &run : *list)
        if (run != options_.self)
          queues[run.server].run = run.run;
  }
  for (auto &[server, queue] : queues)
    if (auto const it = queues_.find(server); it != queues_.end() && it->second.run == queue.run)
      queue = std::move(it->second);
  queues_ = std::move(queues);
}

std::vector<replica> replication::wanted_links() const {
  lock_guard lock{mutex_};
  std::vector<replica> wanted;
  for (auto const &[server, queue] : queues_)
    wanted.push_back({server, queue.run});
  return wanted;
}

bool replication::edit_map(cluster_map &candidate, const std::vector<server_presence> &present) {
  lock_guard lock{mutex_};
  auto const map = map_.load();
  // The links are those of an earlier map: apply_map() comes first, and has edits again.
  if (map == nullptr || map->epoch + 1 != candidate.epoch)
    return false;
  bool is_edited = false;
  for (uint32_t i = 0; i < partition_count; i++)
    if (partitions_[i].is_primary)
      is_edited |= edit_partition(candidate, i, present);
  return is_edited;
}

bool replication::edit_partition(cluster_map &candidate,
                                 uint32_t partition,
                                 const std::vector<server_presence> &present) {
  TND_ASSERT(mutex_.is_held());
  partition_state &state = partitions_[partition];
  partition_record &record = candidate.partitions[partition];
  if (record.replicas.front() != options_.self || record.term != state.term)
    return false;
  if (yield_primary(candidate, partition))
    return true;
  bool const is_edited = remove_refusing(candidate, partition);
  if (complete_joins(candidate, partition, present) || is_edited)
    return true;
  if (remove_surplus(candidate, partition, present))
    return true;
  return move_primary(candidate, partition, present);
}

// Whether the server that should be the partition's primary can take it over.
bool replication::can_move(const partition_state &state,
                           const partition_record &record,
                           const std::vector<const server_presence *> &desired) const {
  TND_ASSERT(mutex_.is_held());
  if (desired.empty() || desired.front()->self == options_.self)
    return false;
  const replica &next = desired.front()->self;
  auto const link = state.links.find(next.server);
  return link != state.links.end() && !link->second.is_lacking &&
         std::find(record.replicas.begin(), record.replicas.end(), next) != record.replicas.end();
}

// Give the partition to the server that should be its primary, once everything has settled.
bool replication::move_primary(cluster_map &candidate,
                               uint32_t partition,
                               const std::vector<server_presence> &present) {
  TND_ASSERT(mutex_.is_held());
  partition_state &state = partitions_[partition];
  const partition_record &record = candidate.partitions[partition];
  auto const desired = desired_servers(partition, candidate.copies, present);
  if (!can_move(state, record, desired))
    return false;
  state.is_closing = true;
  state.is_open.store(false, std::memory_order_release);
  if (!state.pending.empty()) {
    has_edits_.store(true);
    return false;
  }
  if (!hand_over(candidate, partition, options_.self, desired.front()->self))
    return false;
  auto const surplus = surplus_replicas(record, desired, candidate.copies);
  if (std::find(surplus.begin(), surplus.end(), options_.self) != surplus.end())
    (void)remove_replica(candidate, partition, options_.self);
  return true;
}

bool replication::remove_refusing(cluster_map &candidate, uint32_t partition) {
  TND_ASSERT(mutex_.is_held());
  auto const &links = partitions_[partition].links;
  partition_record const record = candidate.partitions[partition];
  bool is_edited = false;
  for (const replica &run : record.replicas)
    if (auto const link = links.find(run.server); link != links.end() && link->second.has_refused)
      is_edited |= remove_replica(candidate, partition, run);
  for (const replica &run : record.joining)
    if (auto const link = links.find(run.server);
        link != links.end() && link->second.has_refused && link->second.is_proposed)
      is_edited |= remove_replica(candidate, partition, run);
  return is_edited;
}

bool replication::complete_joins(cluster_map &candidate,
                                 uint32_t partition,
                                 const std::vector<server_presence> &present) {
  TND_ASSERT(mutex_.is_held());
  auto const &links = partitions_[partition].links;
  std::vector<replica> const joining = candidate.partitions[partition].joining;
  bool is_edited = false;
  for (const server_presence &server : present) {
    auto const link = links.find(server.self.server);
    bool const is_synced = link != links.end() && link->second.stage == link_stage::synced &&
                           may_complete_join(partitions_[partition], link->second);
    bool const is_joining = std::find(joining.begin(), joining.end(), server.self) != joining.end();
    if (!is_synced || !is_joining)
      continue;
    is_edited |= complete_join(candidate, partition, server.self, server.is_durable != 0);
    partitions_[partition].links[server.self.server].is_proposed = true;
  }
  return is_edited;
}

// ---- links

replication::link_queue *replication::find_queue(const replica &peer) {
  auto const it = queues_.find(peer.server);
  return it == queues_.end() || it->second.run != peer.run ? nullptr : &it->second;
}

const replication::link_queue *replication::find_queue(const replica &peer) const {
  auto const it = queues_.find(peer.server);
  return it == queues_.end() || it->second.run != peer.run ? nullptr : &it->second;
}

std::vector<replication::assignment> replication::detached(const replica &peer) const {
  lock_guard lock{mutex_};
  std::vector<assignment> assignments;
  if (find_queue(peer) == nullptr)
    return assignments;
  for (uint32_t i = 0; i < partition_count; i++) {
    const partition_state &state = partitions_[i];
    auto const link = state.links.find(peer.server);
    if (link != state.links.end() && link->second.stage == link_stage::detached &&
        options_.clock->now_ns() >= link->second.retry_ns)
      assignments.push_back({i, state.term});
  }
  return assignments;
}

bool replication::attach(const replica &peer, const assignment &target) {
  lock_guard lock{mutex_};
  partition_state &state = partitions_[target.partition];
  auto const link = state.links.find(peer.server);
  bool const is_current = find_queue(peer) != nullptr && state.is_primary &&
                          state.term == target.term && link != state.links.end();
  if (is_current) {
    link->second.stage = link_stage::syncing;
    link->second.has_refused = false;
    link->second.has_released = false;
    link->second.reported = 0;
    link->second.is_intact = false;
    link->second.is_lacking = false;
  }
  return is_current;
}

void replication::detach_all(const replica &peer) {
  callbacks due;
  {
    lock_guard lock{mutex_};
    link_queue *const queue = find_queue(peer);
    if (queue == nullptr)
      return;
    queue->batches.clear();
    queue->size = 0;
    for (uint32_t i = 0; i < partition_count; i++)
      if (auto const link = partitions_[i].links.find(peer.server);
          link != partitions_[i].links.end())
        detach(i, link->second, due);
  }
  call(due);
}

// The acknowledgment of a server whose mark was under way is not required any more.
void replication::detach(uint32_t partition, link_state &link, callbacks &due) {
  TND_ASSERT(mutex_.is_held());
  bool const was_marking = std::exchange(link.stage, link_stage::detached) == link_stage::marking;
  partition_state &state = partitions_[partition];
  if (!was_marking || !state.is_primary)
    return;
  update_links(state, map_.load()->partitions[partition]);
  settle(state, due);
}

void replication::enqueue(const replica &peer, replica_batch batch) {
  lock_guard lock{mutex_};
  link_queue *const queue = find_queue(peer);
  if (queue == nullptr)
    return;
  if (batch.changes.empty())
    begin_marking(peer, batch);
  if (uint64_t const size = repair_size_of(batch); size > 0) {
    queue->size += size;
    repair_.spend(size);
  }
  queue->batches.push_back(std::move(batch));
}

// From now on the peer's acknowledgment is required. What was settled without it comes before the
// mark.
void replication::begin_marking(const replica &peer, replica_batch &mark) {
  TND_ASSERT(mutex_.is_held());
  partition_state &state = partitions_[mark.partition];
  mark.position = state.last.load();
  auto const link = state.links.find(peer.server);
  bool const is_current = link != state.links.end() && state.is_primary &&
                          state.term == mark.term && link->second.stage == link_stage::syncing;
  if (!is_current)
    return;
  link->second.stage = link_stage::marking;
  update_links(state, map_.load()->partitions[mark.partition]);
}

bool replication::take_batch(const replica &peer, replica_batch &batch) {
  lock_guard lock{mutex_};
  link_queue *const queue = find_queue(peer);
  if (queue == nullptr || queue->batches.empty())
    return false;
  batch = std::move(queue->batches.front());
  queue->batches.pop_front();
  queue->size -= std::min(queue->size, repair_size_of(batch));
  return true;
}

bool replication::may_repair(const replica &peer, uint32_t partition) {
  lock_guard lock{mutex_};
  const link_queue *const queue = find_queue(peer);
  bool const has_room = queue == nullptr ||
                        (queue->batches.size() < repair_count_max && queue->size < repair_size_max);
  auto const &required = partitions_[partition].required;
  bool const is_required =
      std::find(required.begin(), required.end(), peer.server) != required.end();
  return has_room && (is_required || repair_.is_available(options_.clock->now_ns()));
}

void replication::report_refused(const replica &peer, const replica_batch &batch, status cause) {
  callbacks due;
  {
    lock_guard lock{mutex_};
    note_refusal(peer, batch, cause, due);
  }
  call(due);
}

void replication::note_refusal(const replica &peer,
                               const replica_batch &batch,
                               status cause,
                               callbacks &due) {
  TND_ASSERT(mutex_.is_held());
  partition_state &state = partitions_[batch.partition];
  auto const link = state.links.find(peer.server);
  bool const is_current = find_queue(peer) != nullptr && state.is_primary &&
                          state.term == batch.term && link != state.links.end();
  if (!is_current || link->second.has_refused)
    return;
  std::string const problem =
      cause == status::no_space ? "it has no space for its copies" : "its log does not work";
  // It refuses other partitions as well, and each again after a while.
  if (std::exchange(problems_[peer.server], problem) != problem)
    log(log_level::error,
        "pool: server {}: {}: namespaces of partition {}, or more, have a copy less",
        peer.server,
        problem,
        batch.partition);
  link->second.has_refused = true;
  link->second.retry_ns = options_.clock->now_ns() + refused_retry_ns;
  has_edits_.store(true);
  detach(batch.partition, link->second, due);
}

bool replication::holds(uint32_t partition) const {
  auto const map = map_.load();
  if (map == nullptr || partition == local_partition)
    return true;  // not known yet
  const partition_record &record = map->partitions[partition];
  auto const is_self = [&](const replica &run) {
    return run.server == options_.self.server;
  };
  return std::any_of(record.replicas.begin(), record.replicas.end(), is_self) ||
         std::any_of(record.joining.begin(), record.joining.end(), is_self);
}

void replication::acknowledge(const replica &peer, const replica_batch &batch, bool is_mark) {
  callbacks due;
  {
    lock_guard lock{mutex_};
    partition_state &state = partitions_[batch.partition];
    auto const link = state.links.find(peer.server);
    bool const is_current = find_queue(peer) != nullptr && state.is_primary &&
                            state.term == batch.term && link != state.links.end() &&
                            link->second.stage != link_stage::detached;
    bool const is_late_mark = is_current && is_mark && link->second.stage != link_stage::marking;
    if (!is_current || is_late_mark)
      return;
    link_state &entry = link->second;
    if (is_mark)
      entry.stage = link_stage::synced;
    // Before the mark, the peer lacks earlier changes.
    if (entry.stage == link_stage::synced)
      entry.acknowledged = std::max(entry.acknowledged, batch.position);
    if (is_mark) {
      update_links(state, map_.load()->partitions[batch.partition]);
      has_edits_.store(true);
      problems_.erase(peer.server);
    }
    settle(state, due);
  }
  if (is_mark)
    options_.wake();
  call(due);
}

}  // namespace tanada::poold
