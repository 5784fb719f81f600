// tests/sim/cluster_harness.hpp: a cluster of pool servers, their etcd and their clients, in one
// thread and from one seed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/wire/pool_fragments.hpp"
#include "products/pool/client/client.hpp"
#include "products/poold/catalog.hpp"
#include "products/poold/cluster/node.hpp"
#include "products/poold/session.hpp"
#include "sim/cluster_disk.hpp"
#include "sim/cluster_mistakes.hpp"
#include "sim/coordinator.hpp"
#include "sim/history.hpp"
#include "sim/stream.hpp"
#include "sim/world.hpp"

namespace tanada::test {

inline constexpr size_t cluster_namespace_count = 2, cluster_name_count = 5;
// Of the stripes of all objects.
inline constexpr uint32_t cluster_stripe_partitions[] = {3, 77, 150, 201};
// Each change without a known outcome multiplies the work of the check.
inline constexpr size_t cluster_unknown_max = 40;
inline constexpr uint64_t cluster_pool_size = 64 << 20;  // memory of a server
inline constexpr uint32_t cluster_outstanding_max = 3;   // requests of a client
// Values from here on are large enough for stripes of the library.
inline constexpr value_id large_value_base = value_id{1} << 32;

// What happens to the cluster.
enum class cluster_weather {
  fair,
  crashes,
  stops,
  cuts,
  pauses,
  etcd,
  restarts,     // of all servers at once
  disks,        // fail, are replaced, are damaged
  exiles,       // of a primary from etcd and from a part of its clients
  successions,  // a primary is lost whose backups differ, then the next one
  fragments,    // as all, with six servers or more, and up to two that are lost at once
  all,          // except for the three before: sequences of events, and more servers
};

// Where servers keep their objects.
enum class cluster_storage {
  memory,
  mixed,  // some have a log. Clients make a part of their changes durable.
  disks,  // all have a log. Clients make all of their changes durable.
};

struct cluster_setting {
  uint64_t seed = 1;
  cluster_weather weather = cluster_weather::all;
  cluster_mistake mistake = cluster_mistake::none;
  bool has_library = false;  // one more client, which uses the library that programs use
};

// A clock that runs faster or slower than the world's.
class skewed_clock final : public seams::clock {
 public:
  skewed_clock(sim::world &owner, int64_t permille) : world_{owner}, permille_{permille} {}
  uint64_t now_ns() noexcept override {
    uint64_t const now = world_.now_ns();
    return now + uint64_t(int64_t(now / 1000) * permille_);
  }
  void sleep_ns(uint64_t duration_ns) noexcept override {
    world_.advance(duration_ns);
  }

 private:
  sim::world &world_;
  int64_t const permille_;
};

// The clock of a client that waits in calls: meanwhile everything else goes on.
class stepping_clock final : public seams::clock {
 public:
  stepping_clock(sim::world &owner, std::function<bool()> step)
      : world_{owner}, step_{std::move(step)} {}
  uint64_t now_ns() noexcept override {
    return world_.now_ns();
  }
  void sleep_ns(uint64_t duration_ns) noexcept override {
    uint64_t const end_ns = world_.now_ns() + duration_ns;
    while (world_.now_ns() < end_ns)
      if (!step_())
        world_.advance(end_ns - world_.now_ns());
  }

 private:
  sim::world &world_;
  std::function<bool()> const step_;
};

/**
 * Clients put, get, remove, rename and list names at whichever server is the primary, and get and
 * list them at backups. Servers crash or are stopped, and start again empty or with their disk, are
 * paused, lose their connections to each other, to clients and to etcd, and have clocks that
 * differ. At most `copies` - 1 servers are lost at a time: their memory, or in a cluster whose
 * servers all have disks, the disk. There all servers may crash at once. Disks fail, are full or
 * slow, and lose what was not synced when the power fails. With even seeds, objects of servers with
 * disks leave memory.
 *
 * Some objects are striped: their clients put and get stripes in hidden namespaces, with
 * connections of their own. Some of these have an erasure code: their clients put fragments, and
 * decode what they cannot read. Servers lose fragments, and change bytes of fragments.
 *
 * These clients speak the protocol by themselves, so that they do what no library would. One more
 * client may use the library: its calls wait, and anything may happen meanwhile. Its reads must not
 * fail where servers are only lost or stopped.
 *
 * Checks: the history of all operations is linearizable, and every object has the bytes that were
 * put. Where nothing else happens, other servers serve soon after a stop. An object that is open
 * has all of its stripes. At the end all servers are up, a primary serves, all copies of a
 * partition are equal, there are no stripes without an object, and every fragment is at one server.
 */
class cluster_run {
 public:
  explicit cluster_run(const cluster_setting &setting);
  ~cluster_run();

  // Empty, or the error.
  std::string run(uint32_t step_count);
  uint64_t trace() {
    return world_.trace();
  }
  size_t operation_count() const {
    return history_.operations().size();
  }
  // Reads that succeeded over connections for backups.
  size_t backup_read_count() const {
    return backup_read_count_;
  }
  // Crashes of all servers at once.
  size_t outage_count() const {
    return outage_count_;
  }
  // Objects that left memory.
  size_t demotion_count() const {
    return demotion_count_;
  }
  // Disks of which a block was damaged.
  size_t damage_count() const {
    return damage_count_;
  }

 private:
  struct server;
  struct connection {
    size_t from, to;  // servers; clients have numbers above theirs
    std::shared_ptr<bool> is_severed;
  };
  struct link {
    std::unique_ptr<pool::channel> channel;
    uint64_t retry_ns = 0;
    uint64_t epoch = 0;  // counts connections
  };
  // A put or a get of a striped object, which the actor's turns advance.
  struct striped_operation {
    history::operation_id id{};
    std::string name;
    bool is_put = false, is_exclusive = false;
    uint64_t epoch = 0;  // of the actor's connection
    uint64_t handle = 0;
    wire::pool::stripe_manifest manifest;
    std::vector<std::byte> bytes;
    bool may_move = false;  // stripes may be put or got now
    bool has_failed = false, has_ended = false, is_committed = false;
    size_t next = 0;  // the next stripe
    uint32_t outstanding = 0;
    // With an erasure code: of each fragment, its bytes, the server that has it, whether it was put
    // or got, and the link's count of connections then.
    std::vector<std::vector<std::byte>> fragments;
    std::vector<size_t> places;
    std::vector<uint8_t> is_moved;
    std::vector<uint64_t> epochs;
    bool is_located = false;  // the primary has been asked for the places
  };
  using striped_ptr = std::shared_ptr<striped_operation>;
  struct actor {
    std::unique_ptr<pool::channel> channel;
    uint64_t retry_ns = 0;
    uint32_t outstanding = 0;
    bool reads_backup = false;       // only reads, at any server that has a copy
    uint64_t epoch = 0;              // counts connections
    std::map<uint32_t, link> links;  // to hidden namespaces, by partition
    striped_ptr striped;             // null: none is under way
  };

  struct library;
  bool step();
  bool step_in_call();
  void use_library();
  bool connect_library();
  void library_put();
  void library_get();
  void library_list();
  void library_remove();
  void library_write();
  void library_set();
  void library_post();
  void library_open();
  void library_read();
  void end_library_get(history::operation_id id, status code, std::span<const std::byte> bytes);
  void end_library_change(history::operation_id id, status code, failure_cause cause);
  void check_library(const char *call, status code, std::initializer_list<status> allowed);
  value_id new_library_value();
  uint32_t library_durable_flag();
  bool is_reliable() const;
  result<std::unique_ptr<seams::stream>> dial_for_library(size_t to);
  void start(size_t index);
  poold::membership_options member_options(size_t index);
  bool open_log(size_t index);
  void crash(size_t index);
  void crash_all();
  bool may_crash(size_t index);
  bool is_needed(size_t index);
  bool is_sole_copy(size_t index);
  std::vector<uint32_t> used_partitions() const;
  void stop(size_t index);
  void end_stops();
  bool is_up(size_t index) const;
  bool is_served(uint32_t partition) const;
  std::string describe_partition(uint32_t partition) const;
  void pause(size_t index);
  void set_cut(size_t first, size_t second, bool is_cut);
  void sever(size_t index);
  result<std::unique_ptr<seams::stream>> dial(size_t from, size_t to);
  result<std::unique_ptr<seams::stream>> dial_with(size_t from,
                                                   size_t to,
                                                   std::function<bool()> pump,
                                                   std::shared_ptr<bool> is_severed);
  bool pump();
  void pump_server(size_t index);
  void need_memory(server &pumped);
  void disturb();
  void disturb_disks();
  void play();
  void play_exile();
  void play_succession();
  std::vector<size_t> replicas_of(uint32_t partition);
  void spoil_disk(size_t index, bool is_replaced);
  bool has_weather(cluster_weather weather) const {
    return setting_.weather == weather || setting_.weather == cluster_weather::all;
  }
  void heal();
  void restart_ended();
  void set_etcd(size_t index, bool is_reachable);
  void act(size_t index);
  bool connect(size_t index);
  std::unique_ptr<pool::channel> try_connect(size_t index,
                                             const std::string &space,
                                             bool reads_backup);
  pool::channel *link_of(size_t index, uint32_t partition);
  void put_striped(size_t index);
  void begin_stripes(size_t index, const striped_ptr &operation, const pool::reply &received);
  void commit_head(size_t index, const striped_ptr &operation);
  void get_striped(size_t index, history::operation_id id, const std::string &name);
  void read_manifest(size_t index, const striped_ptr &operation);
  void read_whole(size_t index, const striped_ptr &operation, uint64_t size);
  void advance_striped(size_t index);
  void move_stripe(size_t index, const striped_ptr &operation, pool::channel &link);
  void finish_stripe(size_t index, const striped_ptr &operation, const pool::reply &received);
  void prove_open(size_t index, const striped_ptr &operation);
  void end_striped(size_t index);
  link *fragment_link(size_t index, size_t to);
  void cut_fragments(striped_operation &operation);
  void open_fragments(striped_operation &operation);
  void advance_fragments(size_t index, const striped_ptr &operation);
  void move_fragment(size_t index, const striped_ptr &operation, size_t number, link &target);
  void finish_fragments(size_t index, const striped_ptr &operation);
  bool has_lost_fragments(size_t index, const striped_operation &operation) const;
  bool decode_fragments(striped_operation &operation) const;
  void locate_fragments(size_t index, const striped_ptr &operation);
  using manifests = std::map<poold::striped_key, wire::pool::stripe_manifest>;
  manifests fragmented_objects(bool is_served) const;
  std::map<std::pair<poold::striped_key, uint64_t>, size_t> intact_fragments() const;
  size_t lost_fragment_count(bool is_served) const;
  bool may_lose_fragments() const;
  void damage_fragment();
  std::string find_lost_fragments() const;
  void drop_clients();
  void put(size_t index, bool is_exclusive);
  void get(size_t index);
  void end_failed_get(history::operation_id id, status code);
  void remove(size_t index);
  void rename(size_t index);
  void list(size_t index);
  void count_read(size_t index, status code) {
    backup_read_count_ += actors_[index].reads_backup && code == status::ok;
  }
  void end_change(history::operation_id id, status code, failure_cause cause);
  static std::string space_of(size_t index);
  std::string random_name();
  std::vector<std::byte> contents(value_id value);
  value_id value_of(std::span<const std::byte> bytes);
  std::string settle();
  std::string come_to_rest();
  void read_all();
  uint32_t durable_flag();
  std::string compare_copies();
  std::string find_garbage();
  void fail(std::string reason);
  size_t lost_count();
  history::invocation now_of(size_t index) {
    return {uint32_t(index), world_.now_ns()};
  }

  cluster_setting const setting_;
  sim::world world_;
  sim::coordinator_store store_;
  uint32_t copies_ = 2;
  cluster_storage storage_ = cluster_storage::memory;
  bool has_tiers_ = false;        // objects of servers with a log leave memory
  bool may_read_errors_ = false;  // a disk has failed or was damaged
  wire::pool::erasure_scheme scheme_{2, 1};
  size_t server_count_ = 3;
  std::vector<std::unique_ptr<server>> servers_;
  std::vector<actor> actors_;
  std::unique_ptr<library> library_;  // null: not in this run
  uint32_t step_count_ = 0;
  bool is_settling_ = false;
  std::vector<connection> connections_;
  std::map<std::pair<size_t, size_t>, bool> cuts_;
  history history_;
  value_id next_value_ = 1, next_large_value_ = large_value_base;
  size_t backup_read_count_ = 0, outage_count_ = 0, damage_count_ = 0, demotion_count_ = 0;
  size_t unknown_count_ = 0;  // changes without a known outcome
  uint64_t next_run_ = 1, next_session_ = 1, pump_count_ = 0;
  uint64_t disturbed_ns_ = 0, stopped_ns_ = 0;  // 0: all partitions are served since the last stop
  uint64_t calm_until_ns_ = 0;  // no server loses its lease soon after another one's crash
  version_register versions_;
  std::set<wire::pool::striped_id> committed_;  // ids of objects that clients have committed
  std::string failure_;
  // Of a sequence of events.
  struct {
    uint32_t step = 0;
    uint64_t due_ns = 0;
    std::vector<size_t> servers = {};  // that it is about
  } play_;
};

struct cluster_run::library {
  explicit library(cluster_run &owner)
      : clock{owner.world_, [&owner] {
                return owner.step_in_call();
              }} {}
  // An object that is open, and read in parts.
  struct reader {
    history::operation_id id{};
    std::string name;
    std::shared_ptr<pool::open_object> object;
    std::vector<std::byte> bytes;
    uint64_t read_size = 0;
  };
  stepping_clock clock;
  std::unique_ptr<pool::client> client;
  std::optional<reader> open;
  bool has_erasure = false;
};

// What a server has is destroyed in the opposite order: sessions first.
struct cluster_run::server {
  explicit server(sim::world &world, int64_t skew) : clock{world, skew} {}
  skewed_clock clock;
  std::unique_ptr<cluster_disk> disk;  // null: it has only its memory
  std::unique_ptr<mistaken_coordinator> coordinator;
  std::unique_ptr<poold::cluster_node> node;
  std::unique_ptr<mistaken_gate> gate;
  std::unique_ptr<mistaken_journal> journal;
  std::unique_ptr<poold::pool_memory> memory;
  std::unique_ptr<poold::durable_journal> log;  // null: there is no disk
  std::unique_ptr<mistaken_log> local;
  std::unique_ptr<mistaken_cold_store> cold;  // null: all objects stay in memory
  std::unique_ptr<poold::catalog> objects;
  std::unique_ptr<poold::service> service;
  std::shared_ptr<poold::mailbox> mailbox;
  std::map<uint64_t, std::unique_ptr<poold::session>> sessions;
  bool is_up = false, reaches_etcd = true;
  uint64_t paused_until_ns = 0, started_ns = 0;
  uint64_t stop_ns = 0;  // when it ends, because it was stopped; 0: it was not
};

}  // namespace tanada::test
