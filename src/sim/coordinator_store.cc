// The simulated coordinator: the keys, leases and history of the store.
#include <algorithm>

#include "core/base/assert.hpp"
#include "sim/coordinator.hpp"

namespace tanada::sim {

namespace {

constexpr uint64_t second_ns = 1'000'000'000;
constexpr uint64_t mistake_period = 8;  // events of a watch between planted mistakes

}  // namespace

result<seams::coordinated_range> coordinator_store::read(const std::string &prefix) const {
  seams::coordinated_range range{.entries = {}, .store_revision = revision_};
  for (auto it = entries_.lower_bound(prefix); it != entries_.end(); ++it) {
    if (!it->first.starts_with(prefix))
      break;
    range.entries.push_back(it->second);
  }
  return range;
}

bool coordinator_store::holds(const seams::transaction_condition &condition) const {
  auto const it = entries_.find(condition.key);
  uint64_t const revision = it == entries_.end() ? 0 : it->second.revision;
  return revision == condition.revision || faults.ignores_conditions;
}

result<seams::transaction_outcome> coordinator_store::transact(
    const std::vector<seams::transaction_condition> &conditions,
    const std::vector<seams::transaction_change> &changes) {
  if (!std::ranges::all_of(conditions, [this](auto const &condition) { return holds(condition); }))
    return seams::transaction_outcome{false, revision_};
  for (auto const &change : changes) {
    if (change.lease != seams::no_lease && !leases_.contains(change.lease))
      return status::no_entry;
  }
  revision_record record{.revision = revision_ + 1, .events = {}};
  for (auto const &change : changes) {
    if (change.type == seams::transaction_change::kind::put)
      put(change, record);
    else
      remove(change.key, record);
  }
  commit(std::move(record));
  return seams::transaction_outcome{true, revision_};
}

void coordinator_store::put(const seams::transaction_change &change, revision_record &record) {
  auto &entry = entries_[change.key];
  detach(entry);
  entry = {change.key, change.value, record.revision, change.lease};
  if (entry.lease != seams::no_lease)
    leases_[entry.lease].keys.insert(entry.key);
  record.events.push_back({false, entry});
}

void coordinator_store::remove(const std::string &key, revision_record &record) {
  auto const it = entries_.find(key);
  if (it == entries_.end())
    return;
  detach(it->second);
  entries_.erase(it);
  record.events.push_back({true, {key, {}, record.revision, seams::no_lease}});
}

void coordinator_store::detach(const seams::coordinated_entry &entry) {
  if (auto const it = leases_.find(entry.lease); it != leases_.end())
    it->second.keys.erase(entry.key);
}

// Makes the changes visible to watches. Without a change the store keeps its revision.
void coordinator_store::commit(revision_record record) {
  if (record.events.empty())
    return;
  TND_ASSERT(record.revision == revision_ + 1);
  revision_ = record.revision;
  owner.note(revision_);
  std::ranges::sort(record.events, {}, [](auto const &event) { return event.entry.key; });
  history_.push_back(std::move(record));
  for (auto &target : watchers_)
    send_events(target, history_.back());
  std::erase_if(watchers_, [](auto const &target) { return target.client.expired(); });
}

void coordinator_store::send_events(watcher &target, const revision_record &record) {
  std::vector<seams::watch_event> events;
  for (auto const &event : record.events) {
    if (!event.entry.key.starts_with(target.prefix))
      continue;
    bool const is_chosen = ++target.event_count % mistake_period == 0;
    if (!is_chosen || !faults.drops_events)
      events.push_back(event);
    if (is_chosen && faults.repeats_events)
      events.push_back(event);
  }
  if (!events.empty() && !send_to_watch(target, std::move(events)))
    target.client.reset();
}

void coordinator_store::add_watch(watcher added, uint64_t after_revision) {
  auto const client = added.client.lock();
  if (!client)
    return;
  if (is_down_ || after_revision < compacted_revision_) {
    send_to_watch(added, is_down_ ? status::peer_lost : status::stale);
    return;
  }
  for (auto const &record : history_) {
    if (record.revision > after_revision)
      send_events(added, record);
  }
  if (added.client.expired())
    return;
  if (draw(faults.cut_watch_permyriad)) {
    schedule(owner.random.below(faults.cut_ns_max + 1), [this, cut = added] {
      std::erase_if(watchers_, [&](watcher &target) {
        bool const is_cut = target.number == cut.number &&
                            !target.client.owner_before(cut.client) &&
                            !cut.client.owner_before(target.client);
        return is_cut && !send_to_watch(target, status::peer_lost);
      });
    });
  }
  watchers_.push_back(std::move(added));
}

void coordinator_store::remove_watch_of(const coordinator_session &client) {
  std::erase_if(watchers_,
                [&](const watcher &target) { return target.client.lock().get() == &client; });
}

result<seams::lease_id> coordinator_store::grant(uint64_t ttl_s) {
  seams::lease_id const id = ++last_lease_;
  uint64_t const ttl_ns = ttl_s * second_ns;
  leases_[id] = {.ttl_ns = ttl_ns, .deadline_ns = owner.now_ns() + ttl_ns};
  schedule_end(id);
  return id;
}

status coordinator_store::renew(seams::lease_id id) {
  auto const it = leases_.find(id);
  if (it == leases_.end() || it->second.deadline_ns <= owner.now_ns())
    return status::no_entry;
  if (faults.ignores_renewals)
    return status::ok;
  it->second.renewal_count++;
  it->second.deadline_ns = owner.now_ns() + it->second.ttl_ns;
  schedule_end(id);
  return status::ok;
}

status coordinator_store::revoke(seams::lease_id id) {
  if (!leases_.contains(id))
    return status::no_entry;
  end_lease(id);
  return status::ok;
}

void coordinator_store::schedule_end(seams::lease_id id) {
  auto const &lease = leases_[id];
  uint64_t end_ns = lease.deadline_ns + owner.random.below(faults.lease_delay_ns_max + 1);
  if (faults.ends_leases_early)
    end_ns -= lease.ttl_ns / 2;
  owner.schedule(end_ns, [this, id, renewal_count = lease.renewal_count] {
    auto const it = leases_.find(id);
    if (!is_down_ && it != leases_.end() && it->second.renewal_count == renewal_count)
      end_lease(id);
  });
}

void coordinator_store::end_lease(seams::lease_id id) {
  auto const keys = leases_[id].keys;
  leases_.erase(id);
  revision_record record{.revision = revision_ + 1, .events = {}};
  for (auto const &key : keys) {
    if (!faults.keeps_keys_of_leases)
      remove(key, record);
  }
  commit(std::move(record));
}

void coordinator_store::set_down(bool is_down) {
  if (std::exchange(is_down_, is_down) == is_down)
    return;
  if (is_down) {
    for (auto &target : watchers_)
      (void)send_to_watch(target, status::peer_lost);
    watchers_.clear();
    return;
  }
  for (auto &[id, lease] : leases_) {
    lease.renewal_count++;
    lease.deadline_ns = owner.now_ns() + lease.ttl_ns;
    schedule_end(id);
  }
}

void coordinator_store::compact() {
  compacted_revision_ = revision_;
  history_.clear();
}

}  // namespace tanada::sim
