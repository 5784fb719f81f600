// products/poold/cluster/replication.hpp: the journal of a cluster's server. It passes the changes
// of the partitions whose primary the server is to the other servers that hold them.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/mutex.hpp"
#include "products/poold/cluster/backup.hpp"
#include "products/poold/cluster/fragment_directory.hpp"
#include "products/poold/cluster/membership.hpp"
#include "products/poold/cluster/repair_budget.hpp"
#include "products/poold/cluster_gate.hpp"
#include "products/poold/journal.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

// What a link sends, in this order: a group of changes that take effect together, or, without
// changes, a mark.
struct replica_batch {
  uint32_t partition = 0;
  uint64_t term = 0, position = 0;
  std::vector<change> changes;
  bool wants_disk = false;
};

/**
 * The changes of each partition, and which servers have them.
 *
 * A link carries changes to one other server. For each partition it is `detached` (it carries
 * nothing), `syncing` (it carries all changes from now on, while the earlier state is compared),
 * `marking` (the comparison has ended, and its mark is under way), or `synced`. A change is settled
 * once all required links have its acknowledgment, and the local journal, if its caller waits for
 * that. The links to the map's replicas are required, and others from their mark on, so that every
 * settled change is at a server that has become `synced`.
 *
 * **Locks** The catalog's mutex is acquired before this one. Callbacks are called without it.
 */
class replication final : public journal, public cluster_gate {
 public:
  struct options {
    replica self;
    journal *local = nullptr;  // null: nothing outlives the daemon
    seams::clock *clock = &seams::monotonic_clock();
    uint64_t repair_bandwidth = 0;  // bytes a second; 0: see repair_budget
    std::function<uint64_t()> lease_end_ns;
    std::function<void()> wake;            // the owner calls progress() soon
    std::function<uint64_t()> silence_ns;  // see membership
    std::function<uint32_t()> protocol;    // see membership
    // Post the requests of operators.
    std::function<void(const std::string &server, bool is_draining, std::function<void(status)>)>
        drain;
    std::function<void(membership::administration request)> administer;
    std::function<void(const wire::pool::erasure_setting &setting,
                       std::function<void(status)> done)>
        set_erasure;
    // Adds a fragment to those that this server builds. False: there is enough to do.
    std::function<bool(const wire::pool::fragment_build_request &request,
                       std::function<void(status)> done)>
        build;
    uint64_t sweep_ns = 5'000'000'000;  // in which each server reports its fragments once
  };
  explicit replication(options settings);

  const replica &self() const noexcept {
    return options_.self;
  }

  // For the catalog. All versions of a partition have its number, and the primary's term modulo
  // 2047. Those of fragments are this server's only. The result refers to this object.
  std::function<uint64_t(const std::string &namespace_name)> version_tags() const;

  // ---- journal
  void append(std::vector<change> changes,
              std::vector<object_ref> superseded,
              journal_callback done) override;
  bool is_congested() const override;
  bool is_durable() const override;

  // A link has more to do. Called from any thread.
  void wake_links() const {
    options_.wake();
  }

  // ---- cluster_gate
  uint32_t protocol() const override {
    return options_.protocol ? options_.protocol() : wire::pool::protocol_version;
  }
  status check_serving(uint32_t partition) const override;
  bool may_reply(uint32_t partition) const override;
  uint64_t term(uint32_t partition) const override;
  uint64_t last_position(uint32_t partition) const override;
  uint64_t settled_position(uint32_t partition) const override;
  void when_settled(uint32_t partition, uint64_t position, std::function<void()> callback) override;
  status check_replica(const wire::pool::replica_request &request) const override;
  status check_backup(uint32_t partition) const override;
  bool may_reply_as_backup(uint32_t partition) const override;
  status read_as_backup(uint32_t partition,
                        const std::string &name,
                        const std::function<status()> &read) override;
  void begin_copy(const wire::pool::replica_request &place) override;
  void change_copy(const wire::pool::replica_position &change,
                   uint64_t settled,
                   std::span<const std::string> names) override;
  void mark_copy(const wire::pool::replica_position &mark) override;
  void settle_copy(const wire::pool::replica_position &settled) override;
  wire::pool::locate_reply locate(const std::string &namespace_name) const override;
  wire::pool::cluster_status_reply describe() const override;
  wire::pool::stripe_places_reply stripe_places() const override;
  wire::pool::striped_id next_striped_id() override {
    return {options_.self.run, next_striped_.fetch_add(1)};
  }
  wire::pool::erasure_scheme erasure_of(const std::string &namespace_name) const override;
  status set_erasure(const wire::pool::erasure_setting &setting,
                     std::function<void(status)> done) override;
  std::vector<uint8_t> note_fragments(catalog &objects,
                                      const wire::pool::fragment_report_request &report) override;
  wire::pool::fragment_places_reply fragment_places(const striped_key &key) const override;
  status build_fragment(const wire::pool::fragment_build_request &request,
                        std::function<void(status)> done) override;
  status set_draining(const std::string &server,
                      bool is_draining,
                      std::function<void(status)> done) override;
  status remove_server(const std::string &server,
                       bool is_forced,
                       std::function<void(status)> done) override;
  void clear_losses(std::function<void(status)> done) override;
  status check_log() const override;
  bool may_be_repaired(uint32_t partition) const override;

  // ---- the owner's calls
  // Servers that have been in the cluster and were not removed.
  void set_known(std::vector<server_presence> servers);
  // What etcd has about fragments: the settings, and the servers' counts, by server.
  using fragment_counts = std::map<std::string, membership::fragment_count>;
  void set_fragments(std::map<std::string, wire::pool::erasure_scheme> schemes,
                     fragment_counts counts);
  fragment_directory &fragments() noexcept {
    return fragments_;
  }
  std::vector<server_presence> servers() const;
  // What operators read of servers that have an earlier version of the protocol, by name.
  void set_outdated(std::map<std::string, std::string> texts);
  void apply_map(std::shared_ptr<const cluster_map> map,
                 const std::vector<server_presence> &present);
  // As membership::map_editor.
  bool edit_map(cluster_map &candidate, const std::vector<server_presence> &present);
  // Calls callbacks that could not be called at once. True: edit_map() has changes.
  bool progress();
  // Serves nothing any more, also not in later terms. True: every change has settled.
  bool close();
  // What comparisons and the building of fragments may use.
  repair_budget &budget() noexcept {
    return repair_;
  }
  // Bytes that comparisons have sent to other servers, and that fragments were built from.
  uint64_t repaired_size() const {
    return repair_.spent_size();
  }
  // Servers that links are needed to.
  std::vector<replica> wanted_links() const;

  // Why the link has no connection; empty: it has one. For describe().
  void report_problem(const replica &peer, const std::string &problem);

  // ---- a link's calls; `peer` is the server at its other end
  struct assignment {
    uint32_t partition;
    uint64_t term;
  };
  // Partitions that the link has to bring up to date.
  std::vector<assignment> detached(const replica &peer) const;
  // From now on the link carries the partition's changes. False: the term is over.
  bool attach(const replica &peer, const assignment &target);
  void detach_all(const replica &peer);
  // Partitions that the map is to give up the peer's copy of. It must not be read any more before
  // that: the link lets it begin anew, and calls finish_release().
  std::vector<assignment> to_release(const replica &peer) const;
  void finish_release(const replica &peer, const assignment &target);
  // Settled positions that the peer has no report of.
  std::vector<wire::pool::replica_position> take_settled(const replica &peer);
  // Adds a batch to the link's queue, in order with appended changes. A mark gets the position of
  // the last change.
  void enqueue(const replica &peer, replica_batch batch);
  // The next batch to be sent. False: the queue is empty.
  bool take_batch(const replica &peer, replica_batch &batch);
  // Whether a comparison may add more to the link's queue. Changes of clients wait behind it, so
  // there is never much. The budget does not hold up a peer that clients wait for.
  bool may_repair(const replica &peer, uint32_t partition);
  // no_space, io: the peer has no space for the batch, or its log does not work. It stops to be a
  // replica of the partition, so that changes go on without it, and is brought up to date again
  // later.
  void report_refused(const replica &peer, const replica_batch &batch, status cause);

  // An object is damaged here. `is_intact`: the peer has it.
  void report_damaged(const replica &peer, const assignment &target, bool is_intact);

  // Whether the map names this server for the partition.
  bool holds(uint32_t partition) const;

  // The journal of this server's pool; null: nothing outlives the daemon.
  journal *local() const noexcept {
    return options_.local;
  }

  // The peer has all changes of the partition up to this position. `is_mark`: also all that came
  // before the link was attached.
  void acknowledge(const replica &peer, const replica_batch &batch, bool is_mark);

 private:
  struct group {
    uint64_t position = 0;
    bool is_on_disk = false;
    bool has_failed = false;  // the log could not write it, and tries again
    status code = status::ok;
    journal_callback done;
  };
  // A change of another server that the log could not write.
  struct held_reply {
    journal_callback done;
    status code = status::ok;
  };
  struct waiter {
    uint64_t position;
    std::function<void()> callback;
  };
  enum class link_stage { detached, syncing, marking, synced };
  struct link_state {
    uint64_t run = 0;
    link_stage stage = link_stage::detached;
    uint64_t acknowledged = 0;  // position
    bool has_refused = false;   // the server had no space for a change, or could not log it
    uint64_t retry_ns = 0;      // when a server that has refused is brought up to date again
    bool is_to_go = false;      // the map is to give up its copy
    bool is_proposed = false;   // a map that may be under way counts it as a replica
    bool is_intact = false;     // it has objects that are damaged here
    bool is_lacking = false;    // it does not have some of the objects that are damaged here
    bool has_released = false;  // it lets no client read its copy any more
    uint64_t reported = 0;      // settled position that was reported to it
  };
  struct partition_state {
    std::atomic<bool> is_primary{false};
    bool is_closing = false;
    bool is_yielding = false;  // it is closing because another server's copy is better
    std::atomic<uint64_t> term{0};
    std::atomic<bool> is_open{false};
    std::atomic<uint64_t> last{0}, settled{0};
    std::deque<std::shared_ptr<group>> pending;
    std::vector<waiter> waiters;
    std::map<std::string, link_state> links;  // by server
    std::vector<std::string> required;        // servers whose acknowledgment is required
  };
  struct link_queue {
    uint64_t run = 0;
    std::deque<replica_batch> batches;
    uint64_t size = 0;  // bytes of objects in `batches` that comparisons have added
  };
  using callbacks = std::vector<std::function<void()>>;

  void append_fragment(std::vector<change> changes,
                       std::vector<object_ref> superseded,
                       const journal_callback &done);
  void append_locally(std::vector<change> changes,
                      std::vector<object_ref> superseded,
                      journal_callback done);
  void finish_replica(const journal_callback &done, status code);
  void follow_log(callbacks &due) TND_REQUIRES(mutex_);
  void release_failed(uint32_t partition, callbacks &due) TND_REQUIRES(mutex_);
  bool may_open(const partition_record &record) const TND_REQUIRES(mutex_);
  bool may_complete_join(const partition_state &state, const link_state &joining) const
      TND_REQUIRES(mutex_);
  bool should_yield_to(const partition_state &state, const replica &run) const TND_REQUIRES(mutex_);
  bool yield_primary(cluster_map &candidate, uint32_t partition) TND_REQUIRES(mutex_);
  void finish_on_disk(uint32_t partition, const std::shared_ptr<group> &written, status code);
  void begin_term(partition_state &state, const partition_record &record) TND_REQUIRES(mutex_);
  void end_term(partition_state &state, callbacks &due) TND_REQUIRES(mutex_);
  void update_links(partition_state &state, const partition_record &record) TND_REQUIRES(mutex_);
  static void detach_rejoined(partition_state &state,
                              uint32_t partition,
                              const cluster_map &before,
                              const cluster_map &present);
  void forget_proposals(partition_state &state) TND_REQUIRES(mutex_);
  void detach(uint32_t partition, link_state &link, callbacks &due) TND_REQUIRES(mutex_);
  void note_refusal(const replica &peer, const replica_batch &batch, status cause, callbacks &due)
      TND_REQUIRES(mutex_);
  void update_queues() TND_REQUIRES(mutex_);
  void begin_marking(const replica &peer, replica_batch &mark) TND_REQUIRES(mutex_);
  void settle(partition_state &state, callbacks &due) TND_REQUIRES(mutex_);
  bool edit_partition(cluster_map &candidate,
                      uint32_t partition,
                      const std::vector<server_presence> &present) TND_REQUIRES(mutex_);
  bool complete_joins(cluster_map &candidate,
                      uint32_t partition,
                      const std::vector<server_presence> &present) TND_REQUIRES(mutex_);
  bool can_move(const partition_state &state,
                const partition_record &record,
                const std::vector<const server_presence *> &desired) const TND_REQUIRES(mutex_);
  bool move_primary(cluster_map &candidate,
                    uint32_t partition,
                    const std::vector<server_presence> &present) TND_REQUIRES(mutex_);
  bool remove_refusing(cluster_map &candidate, uint32_t partition) TND_REQUIRES(mutex_);
  bool remove_surplus(cluster_map &candidate,
                      uint32_t partition,
                      const std::vector<server_presence> &present) TND_REQUIRES(mutex_);
  result<uint64_t> backup_term(uint32_t partition) const;
  bool is_backup_in(const partition_record &record) const;
  void add_group(uint32_t partition,
                 const std::vector<change> &changes,
                 const std::shared_ptr<group> &added,
                 journal_callback done);
  std::map<std::string, wire::pool::cluster_server> describe_servers() const TND_REQUIRES(mutex_);
  status require_map() const;
  void describe_drains(std::map<std::string, wire::pool::cluster_server> &servers) const
      TND_REQUIRES(mutex_);
  void describe_partition(const partition_record &partition,
                          wire::pool::cluster_status_reply &reply,
                          std::map<std::string, wire::pool::cluster_server> &servers) const
      TND_REQUIRES(mutex_);
  link_queue *find_queue(const replica &peer) TND_REQUIRES(mutex_);
  const link_queue *find_queue(const replica &peer) const TND_REQUIRES(mutex_);
  static void call(const callbacks &due);

  options const options_;
  backup_copies backups_;
  repair_budget repair_;
  mutable mutex mutex_;
  std::array<partition_state, partition_count> partitions_;
  std::map<std::string, link_queue> queues_ TND_GUARDED_BY(mutex_);  // by server
  callbacks deferred_ TND_GUARDED_BY(mutex_);
  bool is_closed_ TND_GUARDED_BY(mutex_) = false;
  // Of the local journal, when it was last looked at. It is ailing once it has not been whole for a
  // while.
  bool is_whole_ TND_GUARDED_BY(mutex_) = true, is_ailing_ TND_GUARDED_BY(mutex_) = false;
  bool has_failed_ TND_GUARDED_BY(mutex_) = false;  // groups that have failed may be pending
  uint64_t failed_ns_ TND_GUARDED_BY(mutex_) = 0;   // when it stopped to be whole
  std::vector<held_reply> held_ TND_GUARDED_BY(mutex_);
  std::atomic<bool> has_edits_{false}, needs_settling_{false};
  std::atomic<uint64_t> next_striped_{1};
  std::atomic<std::shared_ptr<const cluster_map>> map_;
  std::map<std::string, server_presence> servers_ TND_GUARDED_BY(mutex_);  // by name
  std::vector<server_presence> known_ TND_GUARDED_BY(mutex_);
  std::map<std::string, wire::pool::erasure_scheme> schemes_ TND_GUARDED_BY(mutex_);
  fragment_counts fragment_counts_ TND_GUARDED_BY(mutex_);
  fragment_directory fragments_;
  std::map<std::string, std::string> problems_ TND_GUARDED_BY(mutex_);  // by server
  std::set<std::string> unreachable_ TND_GUARDED_BY(mutex_);
  std::map<std::string, std::string> outdated_ TND_GUARDED_BY(mutex_);  // by server
};

}  // namespace tanada::poold
