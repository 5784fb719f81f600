// sim/coordinator.hpp: the simulated etcd: a store of keys with leases and watches, and its
// clients, in one world. Single-threaded, except for wake().
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "seams/coordination/coordinator.hpp"
#include "sim/world.hpp"

namespace tanada::sim {

struct coordinator_faults {
  uint64_t delay_ns_min = 100'000, delay_ns_max = 1'000'000;  // of a request or an answer
  uint64_t watch_delay_ns_max = 0;                            // additional delay of watch events
  uint64_t lease_delay_ns_max = 0;       // how much later than its deadline a lease may end
  uint64_t late_ns_max = 3'000'000'000;  // additional delay of a late request
  uint32_t late_permyriad = 0;           // requests that the store receives late
  uint32_t break_permyriad = 0;          // requests reported as peer_lost while under way
  uint32_t lose_request_permyriad = 0;   // requests that are lost before the store applies them
  uint32_t lose_answer_permyriad = 0;    // applied requests whose answer is lost
  uint32_t lose_renewal_permyriad = 0;   // renewals that are lost, besides those above
  uint32_t cut_watch_permyriad = 0;      // watches cut at an event, or later without one
  uint64_t cut_ns_max = 10'000'000'000;  // when a watch without an event is cut, at the latest
  // Mistakes that no store may make, to verify that a test suite detects them.
  bool drops_events = false;    // every eighth event of a watch
  bool repeats_events = false;  // every eighth event of a watch
  bool ignores_conditions = false;
  bool ends_leases_early = false;
  bool ignores_renewals = false;  // a renewal is acknowledged without an effect
  bool keeps_keys_of_leases = false;
  bool loses_wakes = false;
};

struct coordinator_client_options {
  uint64_t request_timeout_ns = 3'000'000'000;
  uint64_t watch_timeout_ns = 10'000'000'000;  // without a connection, a watch ends after this
};

struct coordinator_session;

/**
 * The store. Outlives its clients.
 *
 * Its revision begins at 1 and increases with each change. A lease gets its whole ttl again when
 * the store comes up after it was down, as with etcd.
 */
class coordinator_store {
 public:
  coordinator_store(world &owning_world, const coordinator_faults &initial_faults)
      : owner{owning_world}, faults{initial_faults} {}

  std::unique_ptr<seams::coordinator> open(const coordinator_client_options &options = {});

  // While a client is unreachable, requests, answers and events are lost or held up between the
  // store and the client. The client reports timed_out.
  void set_reachable(const seams::coordinator &client, bool is_reachable);

  // While the store is down, it accepts nothing and no lease ends. Keys stay. Watches end.
  void set_down(bool is_down);

  // Removes the history up to the current revision. Watches from before then are stale.
  void compact();

  uint64_t revision() const noexcept {
    return revision_;
  }
  const std::map<std::string, seams::coordinated_entry> &entries() const noexcept {
    return entries_;
  }

  world &owner;
  coordinator_faults faults;

 private:
  friend class simulated_coordinator;
  template <class Answer>
  friend struct coordinator_exchange;

  struct lease_record {
    uint64_t ttl_ns = 0, deadline_ns = 0;
    uint64_t renewal_count = 0;
    std::set<std::string> keys{};
  };
  struct watcher {
    std::weak_ptr<coordinator_session> client;
    uint64_t number = 0;
    std::string prefix;
    uint64_t last_arrival_ns = 0;
    uint64_t event_count = 0;
  };
  // The changes of one revision, in the order of their keys.
  struct revision_record {
    uint64_t revision = 0;
    std::vector<seams::watch_event> events;
  };

  // What requests do when the store receives them.
  result<seams::coordinated_range> read(const std::string &prefix) const;
  result<seams::transaction_outcome> transact(
      const std::vector<seams::transaction_condition> &conditions,
      const std::vector<seams::transaction_change> &changes);
  result<seams::lease_id> grant(uint64_t ttl_s);
  status renew(seams::lease_id id);
  status revoke(seams::lease_id id);
  void add_watch(watcher added, uint64_t after_revision);

  bool holds(const seams::transaction_condition &condition) const;
  void put(const seams::transaction_change &change, revision_record &record);
  void remove(const std::string &key, revision_record &record);
  void detach(const seams::coordinated_entry &entry);
  void commit(revision_record record);
  void schedule_end(seams::lease_id id);
  void end_lease(seams::lease_id id);
  void send_events(watcher &target, const revision_record &record);
  bool send_to_watch(watcher &target, result<std::vector<seams::watch_event>> events);
  void remove_watch_of(const coordinator_session &client);

  bool draw(uint32_t permyriad) {
    return owner.random.below(10'000) < permyriad;
  }
  uint64_t draw_delay_ns() {
    return owner.random.between(faults.delay_ns_min, faults.delay_ns_max);
  }
  template <class Action>
  void schedule(uint64_t delay_ns, Action action) {
    owner.schedule(owner.now_ns() + delay_ns, std::move(action));
  }

  std::map<std::string, seams::coordinated_entry> entries_;
  std::map<seams::lease_id, lease_record> leases_;
  std::deque<revision_record> history_;
  std::vector<watcher> watchers_;
  uint64_t revision_ = 1, compacted_revision_ = 1;
  seams::lease_id last_lease_ = 0;
  bool is_down_ = false;
};

}  // namespace tanada::sim
