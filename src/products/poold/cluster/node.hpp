// products/poold/cluster/node.hpp: a daemon's part in a cluster: its membership, its partitions and
// its links to the other servers.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "core/base/mutex.hpp"
#include "products/poold/cluster/link.hpp"
#include "products/poold/cluster/membership.hpp"
#include "products/poold/cluster/replication.hpp"
#include "products/poold/cluster/fragment_builder.hpp"
#include "products/poold/cluster/fragment_repairer.hpp"
#include "products/poold/cluster/fragment_reporter.hpp"
#include "products/poold/cluster/stripe_sweeper.hpp"
#include "seams/os/poller.hpp"

namespace tanada::poold {

class cluster_node {
 public:
  // Connects to a server's address, "host:port".
  using dialer = std::function<result<std::unique_ptr<seams::stream>>(const std::string &address,
                                                                      uint64_t deadline_ns)>;
  struct options {
    membership_options member;
    std::optional<pool::key> key;  // with which this server proves itself to the others
    dialer dial;
    seams::fabric_request fabric = {};  // of this server; no provider: it has none
    size_t page_size = 1000;            // see replica_link::options
    uint64_t repair_bandwidth = 0;      // see replication::options
    // Between searches for stripes without an object, and for missing fragments.
    uint64_t sweep_ns = 5'000'000'000;
  };

  // `local`: the journal of this server's pool; null: nothing outlives the daemon.
  cluster_node(options settings, seams::coordinator &store, journal *local);
  ~cluster_node();

  // The journal that the catalog is created with, and the gate of the sessions.
  replication &changes() noexcept {
    return changes_;
  }

  // The catalog, before anything else is called.
  void attach(catalog &objects);

  // Does everything that is possible without threads. For simulations.
  void progress();

  // Whether the catalog has objects of an earlier run. Before anything else but attach().
  void set_has_objects(bool has_objects) {
    membership_.set_has_objects(has_objects);
  }

  // Whether the log has lost something of what an earlier run has written.
  void set_has_losses(bool has_losses) {
    membership_.set_has_losses(has_losses);
  }

  // Serves with threads of its own: one, one for each link, and one for stripes.
  void start();

  // Waits until the server knows the cluster's map. timed_out: etcd does not answer. invalid: the
  // server may not be in this cluster. The message has the reason.
  status await_map(uint64_t timeout_ns);

  // Stops serving, waits until every change has settled, and lets other servers take over at once.
  // Requests are answered with `stale` from then on, so that clients go to the others. For
  // simulations; see leave().
  void begin_leaving() {
    is_leaving_.store(true);
  }
  bool has_left() const noexcept {
    return membership_.has_left();
  }

  // As begin_leaving(), and waits for that. False: it took longer than the timeout. Other servers
  // then take over once the presence of this one ends, in stop() at the earliest.
  bool leave(uint64_t timeout_ns);

  // Leaves the cluster, and ends the threads. Nothing is served after that.
  void stop();

  struct view {
    std::shared_ptr<const cluster_map> map;
    std::vector<server_presence> present;
    uint64_t lease_ns = 0;  // until the lease ends; 0: without a lease
  };
  view describe() const;

 private:
  struct link_entry {
    std::unique_ptr<replica_link> link;
    seams::waker waker;
    std::atomic<bool> is_ending{false};
    std::thread thread;
  };
  replication::options make_changes(journal *local);
  bool build_fragment(const wire::pool::fragment_build_request &request,
                      std::function<void(status)> done);
  void run();
  void run_link(link_entry &entry);
  void apply_changes();
  void update_links();
  void begin_link(const server_presence &server);
  void end_link(link_entry &entry);
  // Runs the task in the cluster's thread.
  void post(std::function<void()> task);
  void run_tasks();
  void log_servers(const std::vector<server_presence> &present) TND_REQUIRES(mutex_);
  void purge_some();
  void rewrite_some();
  void wake();
  bool sweep();
  void run_sweeper();

  options const options_;
  seams::coordinator &store_;
  replication changes_;
  membership membership_;
  catalog *objects_ = nullptr;
  bool may_purge_ = false;  // objects of partitions that are elsewhere may be left
  // Of names that the log has failed to write.
  std::shared_ptr<std::atomic<bool>> const is_rewriting_ =
      std::make_shared<std::atomic<bool>>(false);
  uint64_t rewrite_ns_ = 0, rewrite_pause_ns_ = 0;
  bool is_changed_ = false;      // map or servers, since the last apply_changes()
  bool is_progressing_ = false;  // progress() is not reentrant
  mutable mutex mutex_;
  std::map<std::string, std::unique_ptr<link_entry>> links_ TND_GUARDED_BY(mutex_);
  std::vector<server_presence> present_ TND_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> tasks_ TND_GUARDED_BY(mutex_);
  std::unique_ptr<peer_channels> channels_;  // of the four that follow
  std::unique_ptr<stripe_sweeper> sweeper_;
  std::unique_ptr<fragment_reporter> reporter_;
  std::unique_ptr<fragment_repairer> repairer_;
  std::unique_ptr<fragment_builder> builder_;
  std::shared_ptr<stripe_ledger> striped_;  // of the catalog, which may end first
  seams::waker sweeper_waker_;
  std::atomic<bool> is_threaded_{false}, is_leaving_{false}, is_stopping_{false};
  std::thread thread_, sweeper_thread_;
};

}  // namespace tanada::poold
