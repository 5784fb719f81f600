// A server's lease, its view of the cluster, and its proposals.
#include "products/poold/cluster/membership.hpp"

#include <tanada/status.h>

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::poold {

namespace {

constexpr uint64_t second_ns = 1'000'000'000;
constexpr uint64_t retry_delay_ns = second_ns / 4;
// Servers propose one after the other, so that one proposal is usually enough.
constexpr uint64_t rank_delay_ns = second_ns / 5;
constexpr uint64_t renewals_per_lease = 4;
constexpr uint64_t proposal_retry_ns = second_ns;

}  // namespace

membership::membership(seams::coordinator &store,
                       membership_options options,
                       map_editor editor,
                       change_callback on_change)
    : store_{store},
      options_{std::move(options)},
      editor_{std::move(editor)},
      on_change_{std::move(on_change)},
      identity_{options_.identity} {
  TND_ASSERT(options_.lease_s > 0 && options_.drift_percent < 100 && options_.copies > 0);
}

void membership::progress() {
  (void)store_.progress();
  if (stage_ == stage::ended)
    return;
  uint64_t const time_ns = now_ns();
  if (!is_requesting_ && stage_ != stage::watching && time_ns >= retry_ns_) {
    if (stage_ == stage::granting)
      grant_lease();
    else if (stage_ == stage::announcing)
      announce();
    else
      read_all();
  }
  if (lease_ != seams::no_lease && !is_renewing_ && time_ns >= renew_ns_)
    renew_lease();
  propose_if_due();
  raise_protocol();
  administer_some();
  report_fragments();
  log_silence();
}

void membership::log_silence() {
  bool const is_silent =
      lease_ != seams::no_lease && silence_ns() > options_.lease_s * second_ns / 2;
  if (!is_silent || std::exchange(is_silent_, true))
    return;
  log(log_level::warning,
      "pool: etcd does not answer: this server serves until its lease ends in {:.3g} s",
      double(lease_end_ns() - std::min(lease_end_ns(), now_ns())) / 1e9);
}

uint64_t membership::due_ns() const {
  uint64_t due = now_ns() + second_ns;
  if (lease_ != seams::no_lease && !is_renewing_)
    due = std::min(due, renew_ns_);
  if (!is_requesting_ && stage_ != stage::watching)
    due = std::min(due, retry_ns_);
  if (is_leaving_ || !administrations_.empty())
    return std::min(due, now_ns() + retry_delay_ns);
  bool const has_check = has_edits_ || checked_ != std::pair{map_revision_, changed_ns_};
  if (stage_ == stage::watching && !is_proposing_ && has_check &&
      proposed_revision_ != map_revision_)
    due = std::min(due, changed_ns_ + rank() * rank_delay_ns);
  return due;
}

void membership::retry_later(stage next) {
  is_requesting_ = false;
  stage_ = next;
  retry_ns_ = now_ns() + retry_delay_ns;
}

// ---- the lease

void membership::grant_lease() {
  is_requesting_ = true;
  uint64_t const sent_ns = now_ns(), attempt = ++attempt_;
  store_.grant_lease(options_.lease_s, [this, sent_ns, attempt](result<seams::lease_id> granted) {
    if (attempt != attempt_ || stage_ != stage::granting)
      return;
    if (!granted.ok())
      return retry_later(stage::granting);
    has_answer_.store(true, std::memory_order_release);
    lease_ = granted.value();
    extend_lease(sent_ns);
    is_requesting_ = false;
    stage_ = stage::announcing;
  });
}

// A lease ends no earlier than its time after the request for it was sent.
void membership::extend_lease(uint64_t sent_ns) {
  uint64_t const lease_ns = options_.lease_s * second_ns;
  lease_sent_ns_.store(sent_ns, std::memory_order_release);
  if (std::exchange(is_silent_, false))
    log(log_level::info, "pool: etcd answers again");
  renew_ns_ = sent_ns + lease_ns / renewals_per_lease;
  if (is_view_applied_)
    lease_end_ns_.store(sent_ns + lease_ns * (100 - options_.drift_percent) / 100,
                        std::memory_order_release);
}

void membership::confirm_applied() {
  if (stage_ != stage::watching || is_view_applied_)
    return;
  is_view_applied_ = true;
  extend_lease(lease_sent_ns_);
}

void membership::renew_lease() {
  is_renewing_ = true;
  uint64_t const sent_ns = now_ns();
  store_.renew_lease(lease_, [this, sent_ns, lease = lease_](status code) {
    if (lease == lease_)
      finish_renewal(sent_ns, code);
  });
}

void membership::finish_renewal(uint64_t sent_ns, status code) {
  is_renewing_ = false;
  if (code == status::ok)
    return extend_lease(sent_ns);
  if (code == status::no_entry)
    return lose_lease("it ended before it was renewed");
  renew_ns_ = now_ns() + retry_delay_ns;
}

// What the server has stays: if no other server has become primary meanwhile, it goes on.
void membership::lose_lease(const char *reason) {
  log(log_level::warning,
      "pool: {} has lost its lease in the cluster: {}; it joins again",
      options_.self.self.server,
      reason);
  lease_ = seams::no_lease;
  is_view_applied_ = false;
  lease_end_ns_.store(0, std::memory_order_release);
  is_renewing_ = false;
  attempt_++;
  retry_later(stage::granting);
}

void membership::leave() {
  stage_ = stage::ended;
  attempt_++;
  lease_end_ns_.store(0, std::memory_order_release);
  if (lease_ == seams::no_lease)
    return has_left_.store(true, std::memory_order_release);
  store_.revoke_lease(std::exchange(lease_, seams::no_lease), [this](status code) {
    if (code == status::ok || code == status::no_entry)
      has_left_.store(true, std::memory_order_release);
  });
}

// ---- the presence

// An earlier run of this server may still be present. Its lease has to end first.
void membership::announce() {
  is_requesting_ = true;
  uint64_t const attempt = ++attempt_;
  seams::transaction_change put;
  put.key = presence_key();
  server_presence self = options_.self;
  if (!options_.identity.empty())
    self.origin = uint8_t(has_losses_ ? log_origin::damaged : log_origin::whole);
  put.value = encode_presence(self);
  put.lease = lease_;
  seams::transaction_change note;  // stays when the server is lost
  note.key = known_prefix() + options_.self.self.server;
  note.value = put.value;
  seams::transaction_change version;  // stays, too
  version.key = version_prefix() + options_.self.self.server;
  version.value = std::to_string(options_.protocol);
  store_.transact({{presence_key(), 0}},
                  {std::move(put), std::move(note), std::move(version)},
                  [this, attempt](result<seams::transaction_outcome> outcome) {
                    if (attempt != attempt_ || stage_ != stage::announcing)
                      return;
                    is_requesting_ = false;
                    if (outcome.ok() && outcome.value().is_applied)
                      stage_ = stage::reading;
                    else if (outcome.error() == status::no_entry)
                      lose_lease("it ended before the server was announced");
                    else
                      check_announced();
                  });
}

// The presence is there already, or the outcome is unknown: it may be this server's.
void membership::check_announced() {
  is_requesting_ = true;
  uint64_t const attempt = ++attempt_;
  store_.read(presence_key(), [this, attempt](result<seams::coordinated_range> range) {
    if (attempt != attempt_ || stage_ != stage::announcing)
      return;
    is_requesting_ = false;
    if (range.ok()) {
      for (const seams::coordinated_entry &entry : range.value().entries)
        if (entry.key == presence_key() && entry.lease == lease_) {
          stage_ = stage::reading;
          return;
        }
    }
    retry_later(stage::announcing);
  });
}

// ---- the view of the cluster

void membership::read_all() {
  is_requesting_ = true;
  uint64_t const attempt = ++attempt_;
  store_.read(options_.prefix, [this, attempt](result<seams::coordinated_range> range) {
    if (attempt != attempt_ || stage_ != stage::reading)
      return;
    if (!range.ok())
      return retry_later(stage::reading);
    is_requesting_ = false;
    stage_ = stage::watching;
    apply_range(range.value());
    if (stage_ == stage::watching)
      watch_from(range.value().store_revision);
  });
}

void membership::apply_range(const seams::coordinated_range &range) {
  presences_.clear();
  draining_.clear();
  known_.clear();
  schemes_.clear();
  fragment_counts_.clear();
  versions_.clear();
  stored_protocol_ = 0;
  stored_revision_ = 0;
  bool has_map = false;
  for (const seams::coordinated_entry &entry : range.entries) {
    has_map |= entry.key == map_key();
    apply_entry(entry);
  }
  if (!has_map && map() != nullptr)
    log(log_level::error,
        "pool: etcd has lost the map of cluster {}: the cluster cannot change until etcd has its "
        "data again",
        identity_);
  update_protocol();
  update_present();
  on_change_();
}

void membership::watch_from(uint64_t revision) {
  uint64_t const attempt = attempt_;
  store_.watch(
      options_.prefix, revision, [this, attempt](result<std::vector<seams::watch_event>> events) {
        if (attempt != attempt_ || stage_ != stage::watching)
          return;
        if (!events.ok())
          return retry_later(stage::reading);
        for (const seams::watch_event &event : events.value())
          apply_event(event);
        update_protocol();
        update_present();
        on_change_();
      });
}

void membership::apply_event(const seams::watch_event &event) {
  if (!event.is_removed)
    return apply_entry(event.entry);
  remove_setting(event.entry.key);
  presences_.erase(event.entry.key);
  known_.erase(event.entry.key);
  if (event.entry.key.starts_with(version_prefix()))
    versions_.erase(event.entry.key.substr(version_prefix().size()));
  if (event.entry.key.starts_with(drain_prefix()))
    draining_.erase(event.entry.key.substr(drain_prefix().size()));
  if (event.entry.key == map_key())
    log(log_level::error, "pool: the cluster's map was removed from the coordinator");
}

void membership::apply_entry(const seams::coordinated_entry &entry) {
  if (entry.key == map_key() && entry.revision >= map_revision_) {
    auto map = decode_map(entry.value);
    map_revision_ = entry.revision;
    if (map.ok() && !adopt_identity(map.value().identity))
      return;
    if (map.ok())
      map_.store(std::make_shared<const cluster_map>(std::move(map).value()));
    else
      log(log_level::error, "pool: the cluster's map cannot be decoded; the last one stays");
  } else if (apply_setting(entry)) {
    return;
  } else if (entry.key.starts_with(drain_prefix())) {
    draining_.insert(entry.key.substr(drain_prefix().size()));
  } else if (entry.key == version_key() || entry.key.starts_with(version_prefix())) {
    apply_version(entry);
  } else if (entry.key.starts_with(presence_prefix()) || entry.key.starts_with(known_prefix())) {
    auto presence = decode_presence(entry.value);
    auto &list = entry.key.starts_with(known_prefix()) ? known_ : presences_;
    if (presence.ok())
      list[entry.key] = std::move(presence).value();
  }
}

void membership::update_present() {
  std::vector<server_presence> present;
  for (auto const &[key, presence] : presences_) {
    present.push_back(presence);
    present.back().is_draining = draining_.contains(presence.self.server) ? 1 : 0;
  }
  if (present == present_)
    return;
  present_ = std::move(present);
  changed_ns_ = now_ns();
  proposed_revision_ = ~uint64_t{0};
}

// ---- proposals

// The position of this server among those that run.
uint64_t membership::rank() const {
  auto const it =
      std::find_if(present_.begin(), present_.end(), [&](const server_presence &server) {
        return server.self == options_.self.self;
      });
  return uint64_t(it - present_.begin());
}

bool membership::make_candidate(cluster_map &candidate) {
  auto const current = map();
  if (current == nullptr)
    return make_first(candidate);
  bool const is_turn = now_ns() >= changed_ns_ + rank() * rank_delay_ns;
  bool const needs_check = is_turn && checked_ != std::pair{map_revision_, changed_ns_};
  if (!has_edits_ && !needs_check)
    return false;
  candidate = *current;
  candidate.epoch++;
  bool const is_edited = std::exchange(has_edits_, false) && editor_(candidate);
  bool const is_advanced = is_turn && advance_map(candidate, present_);
  if (!is_edited && !is_advanced && is_turn)
    checked_ = {map_revision_, changed_ns_};
  return is_edited || is_advanced;
}

// The map of a new cluster. Its identity is kept first, so that the objects never belong to a
// cluster without their server's knowledge.
bool membership::make_first(cluster_map &candidate) {
  if (!identity_.empty() && identity_ != options_.new_identity && !options_.may_create_anew) {
    refuse("this server's objects belong to cluster " + identity_ +
           ", which etcd does not know: etcd has lost its data, or --cluster has another name. "
           "--new-cluster makes a new cluster of this server's objects");
    return false;
  }
  if (identity_ != options_.new_identity && options_.store_identity &&
      options_.store_identity(options_.new_identity) != status::ok) {
    refuse(last_message());
    return false;
  }
  identity_ = options_.new_identity;
  candidate = first_map(options_.self, options_.copies);
  candidate.identity = identity_;
  return true;
}

// False: the server may not be in this cluster, because it would lose what it has.
bool membership::adopt_identity(const std::string &identity) {
  if (identity == identity_)
    return true;
  bool const has_objects = has_objects_ || map() != nullptr;
  if (has_objects) {
    refuse(identity_.empty()
               ? "this server has objects of its own, and would lose them in cluster " + identity +
                     ": start it with an empty --backing"
               : "this server's objects belong to cluster " + identity_ +
                     ", and --cluster leads to cluster " + identity +
                     ": correct it, or start with an empty --backing");
    return false;
  }
  if (options_.store_identity && options_.store_identity(identity) != status::ok) {
    refuse(last_message());
    return false;
  }
  identity_ = identity;
  return true;
}

void membership::refuse(std::string reason) {
  log(log_level::error, "pool: {}: {}", options_.self.self.server, reason);
  refusal_.store(std::make_shared<const std::string>(std::move(reason)));
  leave();
}

// The map that the others go on with.
bool membership::make_departure(cluster_map &candidate) {
  auto const current = map();
  if (current == nullptr)
    return false;
  candidate = *current;
  candidate.epoch++;
  (void)editor_(candidate);
  std::vector<server_presence> others = present_;
  std::erase_if(others, [this](const server_presence &server) { return server.self == self(); });
  (void)advance_map(candidate, others);
  return true;
}

void membership::propose_if_due() {
  if (stage_ != stage::watching || is_proposing_)
    return;
  bool const is_present = rank() < present_.size();
  if (!is_present && is_leaving_)
    has_left_.store(true, std::memory_order_release);
  // A newer map is on its way, unless the proposal was refused because of a server that has come
  // and gone since.
  bool const awaits_map =
      proposed_revision_ == map_revision_ && now_ns() < proposed_ns_ + proposal_retry_ns;
  if (!is_present || awaits_map)
    return;
  cluster_map candidate;
  if (is_leaving_ ? make_departure(candidate) : make_candidate(candidate))
    send_proposal(candidate);
}

void membership::send_proposal(const cluster_map &candidate) {
  is_proposing_ = true;
  std::vector<seams::transaction_change> changes(is_leaving_ ? 2 : 1);
  changes[0].key = map_key();
  changes[0].value = encode_map(candidate);
  if (is_leaving_) {
    changes[1].type = seams::transaction_change::kind::remove;
    changes[1].key = presence_key();
  }
  store_.transact(
      proposal_conditions(),
      std::move(changes),
      [this, basis = proposal_basis{map_revision_, changed_ns_, is_leaving_}](
          const result<seams::transaction_outcome> &outcome) { finish_proposal(basis, outcome); });
}

// The map is the one that the proposal changes. And a server that the proposal takes for gone is
// not back: it would serve by the present map, because it has read that after its return.
std::vector<seams::transaction_condition> membership::proposal_conditions() const {
  std::vector<seams::transaction_condition> conditions{{map_key(), map_revision_}};
  auto const current = map();
  if (current == nullptr)
    return conditions;
  std::set<std::string> absent;
  for (const partition_record &partition : current->partitions)
    for (const auto *list : {&partition.replicas, &partition.joining})
      for (const replica &run : *list)
        if (std::string key = presence_prefix() + run.server; !presences_.contains(key))
          absent.insert(std::move(key));
  for (const std::string &key : absent)
    conditions.push_back({key, 0});
  return conditions;
}

void membership::finish_proposal(const proposal_basis &basis,
                                 const result<seams::transaction_outcome> &outcome) {
  is_proposing_ = false;
  has_edits_ = true;  // the editor knows whether some are left
  if (!outcome.ok()) {
    if (stage_ == stage::watching)
      retry_later(stage::reading);
    return;
  }
  bool const is_applied = outcome.value().is_applied;
  if (is_applied || basis.changed_ns == changed_ns_)
    proposed_revision_ = basis.map_revision;
  proposed_ns_ = now_ns();
  if (!basis.is_departure || !is_applied || stage_ == stage::ended)
    return;
  leave();
  has_left_.store(true, std::memory_order_release);
}

}  // namespace tanada::poold
