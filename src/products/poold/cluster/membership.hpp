// products/poold/cluster/membership.hpp: a server's membership of a cluster: its lease, the map,
// and its proposals for the next map.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/wire/pool.hpp"
#include "core/wire/pool_erasure.hpp"
#include "products/poold/cluster/map.hpp"
#include "seams/clock/clock.hpp"
#include "seams/coordination/coordinator.hpp"

namespace tanada::poold {

struct membership_options {
  std::string prefix;    // of the cluster's keys, such as "/tanada/NAME/"
  server_presence self;  // `run` is unique among all runs of the server
  uint32_t copies = 1;   // of a new cluster
  // The newest version of the protocol that this server uses.
  uint32_t protocol = wire::pool::protocol_version;
  uint64_t lease_s = 5;
  std::string new_identity;  // of a cluster that this server creates
  // Of the cluster that the objects of an earlier run belong to; empty: none.
  std::string identity;
  bool may_create_anew = false;  // a cluster, although it has an identity
  // Keeps the identity with the objects, before they are served or changed. Empty: nothing is kept.
  std::function<status(const std::string &identity)> store_identity;
  // Clocks of two servers differ by less than this in the time of a lease. A server stops serving
  // that much earlier than others may treat it as gone.
  uint64_t drift_percent = 20;
  seams::clock *clock = &seams::monotonic_clock();
};

/**
 * Keeps a server in a cluster.
 *
 * The server has a lease of the coordinator, and its presence under a key with that lease. The
 * lease's end by the server's own clock, less the drift, is lease_end_ns(): until then no other
 * server can have seen the presence disappear. All servers watch presences and map, and each may
 * propose the next map by compare-and-swap.
 *
 * A server announces the newest version of the protocol that it has. The cluster's version is the
 * lowest one of all servers that were not removed. It is stored, and only rises, so that what needs
 * it can be relied on. A server without the cluster's version may not be in the cluster.
 *
 * **Thread safety** progress() and propose() by one thread. lease_end_ns(), protocol() and map() by
 * any.
 */
class membership {
 public:
  // Applies this server's changes, as their partitions' primary, to a candidate for the next map.
  // Returns whether there are any. Called again for each candidate.
  using map_editor = std::function<bool(cluster_map &candidate)>;
  // Called from progress() with each new map, and after each change of the servers that run.
  using change_callback = std::function<void()>;

  membership(seams::coordinator &store,
             membership_options options,
             map_editor editor,
             change_callback on_change);

  // Whether the server has objects of an earlier run, which it would lose in another cluster.
  void set_has_objects(bool has_objects) {
    has_objects_ = has_objects;
  }

  // Whether its log has lost something of what an earlier run has written.
  void set_has_losses(bool has_losses) {
    has_losses_ = has_losses;
  }

  // Calls the coordinator's progress(), and does what is due.
  void progress();

  // When progress() is due again, unless the coordinator has something before that.
  uint64_t due_ns() const;

  // The owner has applied the map. Only then, and only a map that was read after the presence was
  // announced, may be served by: before the announcement the server may have been replaced.
  void confirm_applied();

  // The editor has changes now.
  void propose() {
    has_edits_ = true;
  }

  // Sets whether a server gives its partitions to others. The setting stays when the server
  // restarts.
  void set_draining(const std::string &server, bool is_draining, std::function<void(status)> done);

  // What an operator asks for. `done` is called from progress(). again: etcd did not do it within
  // some seconds. busy: the server runs, or it may have the only copy of something and the request
  // is not forced.
  struct administration {
    enum class kind { remove_server, clear_losses };
    kind type = kind::remove_server;
    std::string server = {};
    bool is_forced = false;
    std::function<void(status)> done = {};
    uint64_t deadline_ns = 0;
  };
  void administer(administration request);

  // The erasure code of a namespace's new striped objects, for all servers.
  void set_erasure(const std::string &namespace_name,
                   const wire::pool::erasure_scheme &scheme,
                   std::function<void(status)> done);
  const std::map<std::string, wire::pool::erasure_scheme> &schemes() const noexcept {
    return schemes_;
  }

  // Fragments that a server has, and those that the objects lack which it serves.
  struct fragment_count {
    uint32_t held = 0, missing = 0;
    bool operator==(const fragment_count &) const = default;
  };
  // Reports this server's counts to the others, soon.
  void set_fragment_count(const fragment_count &count) {
    fragment_count_ = count;
  }
  // By server.
  const std::map<std::string, fragment_count> &fragment_counts() const noexcept {
    return fragment_counts_;
  }

  // For how long etcd has not confirmed what this server knows. By any thread.
  uint64_t silence_ns() const {
    uint64_t const sent_ns = lease_sent_ns_.load(std::memory_order_acquire);
    return now_ns() - std::min(now_ns(), sent_ns);
  }

  // Servers that have been in the cluster and were not removed.
  std::vector<server_presence> known() const {
    std::vector<server_presence> servers;
    for (auto const &[key, server] : known_)
      servers.push_back(server);
    return servers;
  }

  // The version of the protocol that all servers of the cluster have.
  uint32_t protocol() const noexcept {
    return protocol_.load(std::memory_order_acquire);
  }
  // Servers with an earlier version than this one, by name, with a text about that.
  std::map<std::string, std::string> describe_outdated() const;

  // Leaves the cluster, and lets others take over at once: a transaction replaces this server in
  // the map and removes its presence. It is made again for each newer map until it succeeds.
  // Nothing may be served any more, and every change must be settled.
  void begin_leaving() {
    is_leaving_ = true;
  }

  // The other servers know that this one is gone.
  bool has_left() const noexcept {
    return has_left_.load(std::memory_order_acquire);
  }

  // Ends the membership, with whatever others know. has_left() once the lease was revoked. Nothing
  // may be served any more.
  void leave();

  uint64_t lease_end_ns() const noexcept {
    return lease_end_ns_.load(std::memory_order_acquire);
  }
  std::shared_ptr<const cluster_map> map() const {
    return map_.load();
  }
  const std::vector<server_presence> &present() const noexcept {
    return present_;
  }
  const replica &self() const noexcept {
    return options_.self.self;
  }
  // Why the server may not be in the cluster; null: it may. By any thread.
  std::shared_ptr<const std::string> refusal() const {
    return refusal_.load();
  }
  // etcd has answered. By any thread.
  bool has_answer() const noexcept {
    return has_answer_.load(std::memory_order_acquire);
  }

 private:
  enum class stage { granting, announcing, reading, watching, ended };
  uint64_t now_ns() const {
    return options_.clock->now_ns();
  }
  std::string map_key() const {
    return options_.prefix + "map";
  }
  std::string presence_prefix() const {
    return options_.prefix + "servers/";
  }
  std::string drain_prefix() const {
    return options_.prefix + "draining/";
  }
  std::string known_prefix() const {
    return options_.prefix + "known/";
  }
  std::string erasure_prefix() const {
    return options_.prefix + "erasure/";
  }
  std::string count_prefix() const {
    return options_.prefix + "fragments/";
  }
  std::string presence_key() const {
    return presence_prefix() + options_.self.self.server;
  }
  std::string version_key() const {
    return options_.prefix + "protocol";
  }
  std::string version_prefix() const {
    return options_.prefix + "protocols/";
  }
  void apply_version(const seams::coordinated_entry &entry);
  void update_protocol();
  uint32_t lowest_protocol() const;
  void raise_protocol();
  void retry_later(stage next);
  void grant_lease();
  void announce();
  void check_announced();
  void read_all();
  void apply_range(const seams::coordinated_range &range);
  void watch_from(uint64_t revision);
  void apply_event(const seams::watch_event &event);
  void apply_entry(const seams::coordinated_entry &entry);
  void update_present();
  void renew_lease();
  void finish_renewal(uint64_t sent_ns, status code);
  void extend_lease(uint64_t sent_ns);
  void lose_lease(const char *reason);
  void propose_if_due();
  void send_proposal(const cluster_map &candidate);
  std::vector<seams::transaction_condition> proposal_conditions() const;
  // What a proposal was based on.
  struct proposal_basis {
    uint64_t map_revision, changed_ns;
    bool is_departure;
  };
  void finish_proposal(const proposal_basis &basis,
                       const result<seams::transaction_outcome> &outcome);
  bool make_candidate(cluster_map &candidate);
  bool make_departure(cluster_map &candidate);
  bool make_first(cluster_map &candidate);
  bool adopt_identity(const std::string &identity);
  void refuse(std::string reason);
  void log_silence();
  void administer_some();
  void report_fragments();
  bool apply_setting(const seams::coordinated_entry &entry);
  void remove_setting(const std::string &key);
  bool may_remove(const administration &request) const;
  void send_administration(const cluster_map &candidate);
  void finish_administration(status code);
  uint64_t rank() const;

  seams::coordinator &store_;
  membership_options const options_;
  map_editor const editor_;
  change_callback const on_change_;
  stage stage_ = stage::granting;
  bool is_requesting_ = false;  // a request of the present stage is outstanding
  uint64_t retry_ns_ = 0;       // when the stage is tried again
  uint64_t attempt_ = 0;        // of joining; answers to earlier attempts are ignored
  seams::lease_id lease_ = seams::no_lease;
  std::atomic<uint64_t> lease_end_ns_{0};
  bool is_renewing_ = false, is_view_applied_ = false;
  uint64_t renew_ns_ = 0;
  std::atomic<uint64_t> lease_sent_ns_{0};
  bool is_silent_ = false;  // etcd has not answered for a while
  std::atomic<std::shared_ptr<const cluster_map>> map_;
  uint64_t map_revision_ = 0;                         // of the map's key; 0: no map exists
  std::map<std::string, server_presence> presences_;  // by key
  std::map<std::string, server_presence> known_;      // by key
  std::set<std::string> draining_;                    // names of servers
  std::map<std::string, uint32_t> versions_;          // announced ones of the protocol, by server
  uint32_t stored_protocol_ = 0;                      // of the cluster; 0: none is stored
  uint64_t stored_revision_ = 0;                      // of its key
  bool is_raising_ = false;                           // a transaction is outstanding
  uint64_t raise_ns_ = 0;                             // when the next one may be sent
  std::atomic<uint32_t> protocol_{wire::pool::protocol_version_min};
  std::map<std::string, wire::pool::erasure_scheme> schemes_;  // by namespace
  std::map<std::string, fragment_count> fragment_counts_;      // by server
  fragment_count fragment_count_;                              // of this server
  bool is_reporting_ = false;                                  // a transaction is outstanding
  uint64_t reported_ns_ = 0;                                   // when the last one was sent
  std::deque<administration> administrations_;                 // the first is under way
  bool is_administering_ = false;                              // a transaction is outstanding
  uint64_t administered_ns_ = 0;                               // when the next one may be sent
  std::vector<server_presence> present_;
  bool has_edits_ = false, is_proposing_ = false, is_leaving_ = false;
  std::atomic<bool> has_left_{false}, has_answer_{false};
  bool has_objects_ = false, has_losses_ = false;
  std::string identity_;  // of the cluster that the server's objects belong to
  std::atomic<std::shared_ptr<const std::string>> refusal_;
  uint64_t changed_ns_ = 0;                    // when the servers that run last changed
  uint64_t proposed_revision_ = ~uint64_t{0};  // map_revision_ at the last proposal
  uint64_t proposed_ns_ = 0;                   // when its outcome was known
  // map_revision_ and changed_ns_ when the map was last found to be right.
  std::pair<uint64_t, uint64_t> checked_{~uint64_t{0}, 0};
};

}  // namespace tanada::poold
