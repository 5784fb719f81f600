// tests/sim/cluster_mistakes.hpp: mistakes that are planted between a simulated server of a cluster
// and what it uses, for the checks to find.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.hpp"
#include "products/poold/catalog.hpp"
#include "products/poold/cluster/map.hpp"
#include "products/poold/cluster_gate.hpp"
#include "products/poold/cold_store.hpp"
#include "products/poold/journal.hpp"
#include "seams/coordination/coordinator.hpp"

namespace tanada::test {

// A mistake that the check must find.
enum class cluster_mistake {
  none,
  early_read,            // reads do not wait until other servers have what they read
  early_acknowledgment,  // changes are acknowledged before other servers have them
  ignored_term,          // a server accepts the changes of an earlier primary
  endless_lease,         // a server serves although its lease has ended
  unsynced_primary,      // a primary serves before the other servers are up to date
  lost_removal,          // removals are not passed to the other servers
  slow_clock,            // a server's clock is slower than the drift that is allowed
  unsynced_successor,    // a server that stops gives its partitions to one that is being copied to
  endless_service,       // a server that stops serves although others have taken over
  lost_departure,        // a server that stops does not leave the cluster
  unleased_backup,       // a backup answers reads although its lease has ended
  unsettled_backup,      // a backup shows changes that may be lost
  kept_backup,           // a backup answers reads although its primary goes on without it
  early_head,            // a client commits a striped object before its stripes
  swept_open,            // stripes are removed although a reader has their object open
  swept_uncommitted,     // stripes of an object that is being written are removed
  equal_versions,        // servers count versions without regard to each other
  dropped_version,       // a log drops an object with a version that it has had before
  ignored_log_failure,   // a backup that could not write its log counts as a copy
  unsynced_log,          // a log acknowledges changes before they are synced
  swept_fragment,        // fragments of objects that exist are removed
  other_bytes,           // a reader of a cold object gets those of another one
};

// The gate of a server, with the planted mistake.
class mistaken_gate final : public poold::cluster_gate {
 public:
  mistaken_gate(poold::cluster_gate &inner,
                cluster_mistake mistake,
                const std::set<wire::pool::striped_id> &committed)
      : inner_{inner}, mistake_{mistake}, committed_{committed} {}
  uint32_t protocol() const override {
    return inner_.protocol();
  }
  status check_serving(uint32_t partition) const override {
    if (serves_endlessly())
      return status::ok;
    status const code = inner_.check_serving(partition);
    bool const has_lease = last_message().find("lease") == std::string::npos;
    bool const is_mistaken =
        code == status::again && mistake_ == (has_lease ? cluster_mistake::unsynced_primary
                                                        : cluster_mistake::endless_lease);
    return is_mistaken ? status::ok : code;
  }
  bool may_reply(uint32_t partition) const override {
    if (serves_endlessly())
      return true;
    bool const is_mistaken =
        mistake_ == cluster_mistake::endless_lease || mistake_ == cluster_mistake::unsynced_primary;
    return is_mistaken ? check_serving(partition) == status::ok : inner_.may_reply(partition);
  }
  uint64_t term(uint32_t partition) const override {
    return inner_.term(partition);
  }
  uint64_t last_position(uint32_t partition) const override {
    return inner_.last_position(partition);
  }
  uint64_t settled_position(uint32_t partition) const override {
    return mistake_ == cluster_mistake::early_read ? ~uint64_t{0}
                                                   : inner_.settled_position(partition);
  }
  void when_settled(uint32_t partition,
                    uint64_t position,
                    std::function<void()> callback) override {
    inner_.when_settled(partition, position, std::move(callback));
  }
  status check_replica(const wire::pool::replica_request &request) const override {
    status const code = inner_.check_replica(request);
    return code == status::stale && mistake_ == cluster_mistake::ignored_term ? status::ok : code;
  }
  status check_backup(uint32_t partition) const override {
    return inner_.check_backup(partition);
  }
  bool may_reply_as_backup(uint32_t partition) const override {
    return mistake_ == cluster_mistake::unleased_backup || inner_.may_reply_as_backup(partition);
  }
  status read_as_backup(uint32_t partition,
                        const std::string &name,
                        const std::function<status()> &read) override {
    status const code = inner_.read_as_backup(partition, name, read);
    auto const is_because_of = [](const char *reason) {
      return last_message().find(reason) != std::string::npos;
    };
    bool const is_mistaken =
        code == status::again &&
        ((mistake_ == cluster_mistake::unleased_backup && is_because_of("lease")) ||
         (mistake_ == cluster_mistake::unsettled_backup && is_because_of("settled")));
    return is_mistaken ? read() : code;
  }
  void begin_copy(const wire::pool::replica_request &place) override {
    bool const is_release = marked_.contains({place.partition, place.term});
    if (!is_release || mistake_ != cluster_mistake::kept_backup)
      inner_.begin_copy(place);
  }
  void change_copy(const wire::pool::replica_position &change,
                   uint64_t settled,
                   std::span<const std::string> names) override {
    inner_.change_copy(change, settled, names);
  }
  void mark_copy(const wire::pool::replica_position &mark) override {
    marked_.emplace(mark.place.partition, mark.place.term);
    inner_.mark_copy(mark);
  }
  void settle_copy(const wire::pool::replica_position &settled) override {
    inner_.settle_copy(settled);
  }
  wire::pool::cluster_status_reply describe() const override {
    return inner_.describe();
  }
  status set_draining(const std::string &server,
                      bool is_draining,
                      std::function<void(status)> done) override {
    return inner_.set_draining(server, is_draining, std::move(done));
  }
  status remove_server(const std::string &server,
                       bool is_forced,
                       std::function<void(status)> done) override {
    return inner_.remove_server(server, is_forced, std::move(done));
  }
  wire::pool::erasure_scheme erasure_of(const std::string &namespace_name) const override {
    return inner_.erasure_of(namespace_name);
  }
  status set_erasure(const wire::pool::erasure_setting &setting,
                     std::function<void(status)> done) override {
    return inner_.set_erasure(setting, std::move(done));
  }
  std::vector<uint8_t> note_fragments(poold::catalog &objects,
                                      const wire::pool::fragment_report_request &report) override {
    auto is_kept = inner_.note_fragments(objects, report);
    if (mistake_ == cluster_mistake::swept_fragment)
      is_kept.assign(is_kept.size(), 0);
    return is_kept;
  }
  wire::pool::fragment_places_reply fragment_places(const poold::striped_key &key) const override {
    return inner_.fragment_places(key);
  }
  status build_fragment(const wire::pool::fragment_build_request &request,
                        std::function<void(status)> done) override {
    return inner_.build_fragment(request, std::move(done));
  }
  void clear_losses(std::function<void(status)> done) override {
    inner_.clear_losses(std::move(done));
  }
  wire::pool::locate_reply locate(const std::string &namespace_name) const override {
    return inner_.locate(namespace_name);
  }
  wire::pool::stripe_places_reply stripe_places() const override {
    return inner_.stripe_places();
  }
  wire::pool::striped_id next_striped_id() override {
    return inner_.next_striped_id();
  }
  status check_log() const override {
    return inner_.check_log();
  }
  bool may_be_repaired(uint32_t partition) const override {
    return inner_.may_be_repaired(partition);
  }
  bool has_striped(poold::catalog &objects, const poold::striped_key &key) const override {
    bool const is_known = inner_.has_striped(objects, key);
    bool const is_committed = committed_.contains(key.second);
    bool const is_ignored = mistake_ == (is_committed ? cluster_mistake::swept_open
                                                      : cluster_mistake::swept_uncommitted);
    return is_known && (!is_ignored || has_name(objects, key));
  }

  bool is_leaving = false;

 private:
  bool serves_endlessly() const {
    return is_leaving && mistake_ == cluster_mistake::endless_service;
  }
  static bool has_name(poold::catalog &objects, const poold::striped_key &key) {
    bool is_named = false;
    (void)objects.visit_objects([&](const std::string &name) { return name == key.first; },
                                {},
                                SIZE_MAX,
                                [&](const auto &, const poold::object_ref &object) {
                                  is_named |= object->striped != nullptr &&
                                              object->striped->id() == key.second;
                                  return true;
                                });
    return is_named;
  }

  poold::cluster_gate &inner_;
  cluster_mistake const mistake_;
  const std::set<wire::pool::striped_id> &committed_;
  std::set<std::pair<uint32_t, uint64_t>> marked_;  // partitions and terms
};

// The coordinator of a server, with the planted mistake in the map that a server leaves behind.
class mistaken_coordinator final : public seams::coordinator {
 public:
  mistaken_coordinator(std::unique_ptr<seams::coordinator> inner, cluster_mistake mistake)
      : inner_{std::move(inner)}, mistake_{mistake} {}
  void read(const std::string &prefix, range_callback done) override {
    inner_->read(prefix, std::move(done));
  }
  void transact(std::vector<seams::transaction_condition> conditions,
                std::vector<seams::transaction_change> changes,
                transaction_callback done) override {
    bool const is_departure =
        changes.size() == 2 && changes[1].type == seams::transaction_change::kind::remove;
    if (is_departure && mistake_ == cluster_mistake::lost_departure)
      return;
    if (is_departure && mistake_ == cluster_mistake::unsynced_successor)
      prefer_joining(changes[0].value);
    inner_->transact(std::move(conditions), std::move(changes), std::move(done));
  }
  void grant_lease(uint64_t ttl_s, lease_callback done) override {
    inner_->grant_lease(ttl_s, std::move(done));
  }
  void renew_lease(seams::lease_id lease, status_callback done) override {
    inner_->renew_lease(lease, std::move(done));
  }
  void revoke_lease(seams::lease_id lease, status_callback done) override {
    inner_->revoke_lease(lease, std::move(done));
  }
  void watch(const std::string &prefix, uint64_t after_revision, watch_handler handler) override {
    inner_->watch(prefix, after_revision, std::move(handler));
  }
  size_t progress() override {
    return inner_->progress();
  }
  status wait(uint64_t deadline_ns) override {
    return inner_->wait(deadline_ns);
  }
  void wake() noexcept override {
    inner_->wake();
  }
  const seams::coordinator &inner() const noexcept {
    return *inner_;
  }

 private:
  static void prefer_joining(std::string &text) {
    auto map = poold::decode_map(text).value();
    for (poold::partition_record &partition : map.partitions) {
      if (partition.term != map.epoch || partition.joining.empty())
        continue;
      partition.replicas = {partition.joining.front()};
      partition.is_durable = {0};
      partition.joining.clear();
    }
    text = poold::encode_map(map);
  }

  std::unique_ptr<seams::coordinator> const inner_;
  cluster_mistake const mistake_;
};

// The versions that all servers have assigned, also those of objects that were lost.
struct version_register {
  std::set<uint64_t> assigned;
  uint64_t repeated = 0;  // one that was assigned twice

  void record(uint64_t version) {
    if (!assigned.insert(version).second)
      repeated = version;
  }
};

// The journal of a server, with the planted mistake.
class mistaken_journal final : public poold::journal {
 public:
  mistaken_journal(poold::journal &inner, cluster_mistake mistake, version_register &versions)
      : inner_{inner}, mistake_{mistake}, versions_{versions} {}
  void append(std::vector<poold::change> changes,
              std::vector<poold::object_ref> superseded,
              poold::journal_callback done) override {
    // The versions of fragments are those of their server only.
    if (!changes.empty() && wire::pool::is_fragment_space(changes[0].namespace_name))
      return inner_.append(std::move(changes), std::move(superseded), std::move(done));
    for (const poold::change &update : changes)
      if (update.type == poold::change::kind::put && !update.is_replica)
        versions_.record(update.version);
    bool const is_removal = changes.size() == 1 && !changes[0].is_replica &&
                            changes[0].type == poold::change::kind::remove;
    bool const is_early = mistake_ == cluster_mistake::early_acknowledgment && !changes.empty() &&
                          !changes[0].is_replica;
    if (is_early || (mistake_ == cluster_mistake::lost_removal && is_removal)) {
      if (done)
        early.push_back([done] { done(status::ok); });
      done = {};
    }
    if (mistake_ != cluster_mistake::lost_removal || !is_removal)
      inner_.append(std::move(changes), std::move(superseded), std::move(done));
  }
  bool is_durable() const override {
    return inner_.is_durable();
  }
  bool is_congested() const override {
    return false;
  }

  std::vector<std::function<void()>> early;

 private:
  poold::journal &inner_;
  cluster_mistake const mistake_;
  version_register &versions_;
};

// What objects leave memory for, with the planted mistake.
class mistaken_cold_store final : public poold::cold_store {
 public:
  mistaken_cold_store(poold::cold_store &inner, cluster_mistake mistake)
      : inner_{inner}, mistake_{mistake} {}
  std::shared_ptr<poold::cold_reader> open_reader(uint64_t logged_version) override {
    uint64_t const last = std::exchange(last_version_, logged_version);
    bool const is_mistaken = mistake_ == cluster_mistake::other_bytes && last != 0;
    return inner_.open_reader(is_mistaken ? last : logged_version);
  }
  bool is_writing() const override {
    return inner_.is_writing();
  }
  uint64_t capacity() const override {
    return inner_.capacity();
  }

 private:
  poold::cold_store &inner_;
  cluster_mistake const mistake_;
  uint64_t last_version_ = 0;
};

// The log of a server, with the planted mistake.
class mistaken_log final : public poold::journal {
 public:
  mistaken_log(poold::journal &inner, cluster_mistake mistake) : inner_{inner}, mistake_{mistake} {}
  void append(std::vector<poold::change> changes,
              std::vector<poold::object_ref> superseded,
              poold::journal_callback done) override {
    bool const is_dropped = mistake_ == cluster_mistake::dropped_version && has_known(changes);
    bool const is_early = mistake_ == cluster_mistake::unsynced_log;
    if (is_dropped || is_early) {
      if (done)
        early.push_back([done] { done(status::ok); });
      done = {};
    }
    if (is_dropped)
      return;
    bool const is_ignored = ignores_failures() && !changes.empty() && changes[0].is_replica;
    if (is_ignored && done)
      done = {[done](status) { done(status::ok); }, done.waits_for_disk()};
    inner_.append(std::move(changes), std::move(superseded), std::move(done));
  }
  bool is_durable() const override {
    return inner_.is_durable();
  }
  bool is_congested() const override {
    return false;
  }
  poold::journal_condition condition() const override {
    return ignores_failures() ? poold::journal_condition{} : inner_.condition();
  }
  std::vector<poold::object_place> unwritten_places(size_t count_max) const override {
    return inner_.unwritten_places(count_max);
  }

  std::vector<std::function<void()>> early;

 private:
  bool ignores_failures() const {
    return mistake_ == cluster_mistake::ignored_log_failure;
  }
  bool has_known(const std::vector<poold::change> &changes) {
    bool is_known = false;
    for (const poold::change &update : changes)
      if (update.type == poold::change::kind::put)
        is_known |= !versions_.insert(update.version).second;
    return is_known;
  }

  poold::journal &inner_;
  cluster_mistake const mistake_;
  std::set<uint64_t> versions_;
};

}  // namespace tanada::test
