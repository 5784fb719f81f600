// tests/sim/pool_life.hpp: a whole daemon over a simulated disk, with its clients, in one thread
// and from one seed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "products/pool/client/client.hpp"
#include "products/poold/durable.hpp"
#include "products/poold/session.hpp"
#include "sim/clock.hpp"
#include "sim/persistent_memory.hpp"
#include "sim/pool_life_disk.hpp"
#include "sim/pool_life_model.hpp"
#include "sim/store.hpp"
#include "sim/stream.hpp"

namespace tanada::test {

inline constexpr uint64_t never = ~uint64_t{0};  // a time

// Faults in addition to the daemon's end, which happens in all of them. cuts: of connections.
// errors: the store's operations fail. full: no space in the store, the log or the namespace. slow:
// the store stalls. lies: writes are lost, misdirected or change later.
enum class sky { calm, cuts, errors, full, slow, lies };

// Where the pool keeps its objects: a log that contains them, beside memory; the same as `flash:`
// has it, when objects leave memory; `file:`, a mapped file with a journal; the same in persistent
// memory; `dram`, nowhere.
enum class medium { flash, tiers, file, persistent, memory };

// A mistake that a check must find.
enum class mistake {
  none,
  early_answer,    // answered before the log has it
  unsynced,        // the store's syncs have no effect
  lost_removal,    // removals do not reach the log
  lost_rename,     // neither do renames
  lost_overwrite,  // nor do objects under names that others had
  partial_sets,    // of a set's objects all but the last one reach the log
  old_versions,    // versions restart after those that were recovered
  lost_memory,     // memory that is never freed
  unsynced_file,   // the backing file's syncs, or its flushes of cache lines, have no effect
  short_sync,      // the sync of a group omits all of its pages but the first; a flush, lines
  early_name,      // the journal has an object before the backing file's bytes are synced
  early_reuse,     // memory is reused before the journal records that its object is gone
  other_bytes,     // a reader of a cold object gets those of another one
  lost_stripe,     // the log does not get the second stripe of an object
  kept_stripes,    // stripes without an object are not removed
  whole_pages,     // a restart treats each range of an object of 64 KiB or more as whole pages
};

struct life_setting {
  uint64_t seed = 1;
  sky over = sky::calm;
  mistake planted = mistake::none;
  medium kept_on = medium::flash;
};

// A layer between the catalog and its journal, for mistakes.
class planted_journal final : public poold::journal, public poold::cold_store {
 public:
  planted_journal(poold::durable_journal &real, mistake planted) : real_{real}, planted_{planted} {}
  void append(std::vector<poold::change> changes,
              std::vector<poold::object_ref> superseded,
              poold::journal_callback done) override;
  bool is_congested() const override {
    return real_.is_congested();
  }
  std::shared_ptr<poold::cold_reader> open_reader(uint64_t logged_version) override;
  bool is_writing() const override {
    return real_.is_writing();
  }
  uint64_t capacity() const override {
    return real_.capacity();
  }
  void answer_early();

 private:
  poold::durable_journal &real_;
  mistake const planted_;
  uint64_t last_read_version_ = 0;
  std::vector<poold::journal_callback> early_;
};

// Changes a journal's records so that a start reads them with mistake::whole_pages.
void plant_whole_pages(sim::store &store, const std::string &folder);

// Clients of one to four namespaces change their own names, read those of others, and know what the
// pool may contain (pool_life_model.hpp). The daemon ends at any moment: the power fails, it is
// killed, or it is stopped in order. Then it restarts from the disk, with another segment size and
// sometimes with few segments. With tiers, large objects are striped. Objects are written whole or
// in steps of any size, several at a time, with their size known, unknown or too small. Checks:
// what is recovered, and that every recovered object is whole; that readers get existing data; that
// versions rise; that memory and quotas are counted correctly; that calls end by their deadlines;
// and that all clients succeed in the end.
class pool_life {
 public:
  explicit pool_life(const life_setting &setting);
  ~pool_life();

  // Empty, or the error.
  std::string run(uint32_t step_count);
  uint64_t trace() {
    return world_.trace();
  }

  struct counters {
    uint64_t lives = 0, durable = 0, recovered_objects = 0, dropped = 0, unknown = 0, grown = 0;
    uint64_t demoted = 0, promoted = 0, striped = 0;
  };
  const counters &counted() const {
    return counted_;
  }

 private:
  struct served {
    std::unique_ptr<poold::session> one;
    size_t actor;
    std::shared_ptr<bool> reset;  // of its connection
  };
  // The daemon's objects in memory, in order of construction.
  struct daemon {
    std::unique_ptr<poold::pool_memory> memory;
    std::unique_ptr<poold::durable_journal> journal;
    std::unique_ptr<planted_journal> front;
    std::unique_ptr<poold::catalog> objects;
    std::unique_ptr<poold::local_stripes> stripes;  // of tiers
    std::unique_ptr<poold::service> service;
    std::shared_ptr<poold::mailbox> answers = std::make_shared<poold::mailbox>();
    std::vector<served> sessions;
  };
  struct request {
    uint64_t context, life, version_floor;
    bool durable;
    std::string bytes;
  };
  struct actor {
    size_t index;
    std::string space;
    name_model model;
    std::unique_ptr<pool::client> client{};
    std::deque<request> out{};
    uint64_t next_context = 1;
  };

  // An object that is written step by step.
  struct written_object {
    name_change change;
    std::string set;
    pool::open_object made{};
    std::string bytes{};  // its final size
    uint64_t life = 0, written_size = 0, step_size_max = 1;
  };

  // The world (pool_life.cc).
  sim::store_faults draw_faults();
  void draw_log_options();
  status start_daemon();
  void restart();
  void end_daemon();
  void stop_in_order();
  void damage_disk();
  bool pump();
  void serve();
  void serve_one(size_t which);
  void advance_store();
  result<std::unique_ptr<seams::stream>> dial(size_t actor);
  void check_recovered();
  void check_accounts();
  void check_stripes();
  void restore_stripes(daemon &made);
  std::vector<std::string> all_spaces() const;
  bool look(std::vector<held_names> &found);
  uint64_t look_at(const std::string &space,
                   const std::string &name,
                   const poold::catalog::opened_object &held);
  status read_bytes(const poold::catalog::opened_object &held, std::string &bytes);
  status read_stripes(const poold::object &head, const std::string &space, std::string &bytes);
  void need_memory();
  uint64_t damaged_contents(const poold::info &about) const;
  void wrong(std::string what);
  bool tells_lies() const {
    return setting_.over == sky::lies;
  }
  bool persists() const {
    return setting_.kept_on != medium::memory;
  }
  bool may_damage() const {
    return tells_lies() || setting_.over == sky::errors;
  }
  bool has_holes() const {
    return setting_.over != sky::calm && setting_.over != sky::cuts;
  }

  // The clients (pool_life_clients.cc).
  void step(actor &who);
  void begin_call();
  bool connected(actor &who);
  uint64_t new_contents(uint64_t size);
  uint64_t drawn_size();
  bool drawn_durable() {
    return persists() && world_.random.chance(40);
  }
  name_change drawn_put(actor &who);
  std::string drawn_name(const actor &who);
  void put(actor &who);
  void put_striped(actor &who, const name_change &change);
  uint32_t drawn_checksum_kind();
  status begin_object(actor &who, written_object &target);
  status write_step(actor &who, written_object &target);
  status write_objects(actor &who, std::vector<written_object> &targets);
  bool commit_object(actor &who, written_object &target);
  void write_in_parts(actor &who);
  void commit_set(actor &who);
  void rename(actor &who);
  void remove(actor &who);
  void set_flags(actor &who);
  const actor &drawn_neighbour(const actor &who);
  void get(actor &who);
  void list(actor &who);
  void change_by(actor &who,
                 name_change change,
                 const std::string &what,
                 const std::function<status()> &call);
  void note(actor &who, status code, const std::string &what);
  void send(actor &who, name_change change);
  void settle(actor &who, status code, uint64_t life, const std::string &what);
  void check_version(uint64_t version, uint64_t floor);
  size_t take_completions(actor &who, bool &unsure);
  void reap(actor &who);
  void settle_all(actor &who);
  void resync(actor &who);
  bool is_excused(status code) const;
  void last_words();

  life_setting const setting_;
  sim::world world_;
  sim::clock clock_{world_};
  sim::store_faults faults_;
  std::unique_ptr<sim::store> store_;
  std::unique_ptr<backing_disk> disk_;
  std::unique_ptr<sim::persistent_memory> persistent_;  // in place of the disk's bytes
  poold::durable_options keeping_;
  pool::log_options log_options_;
  std::unique_ptr<daemon> daemon_;
  std::vector<std::string> spaces_;
  std::vector<actor> actors_;
  std::map<uint64_t, std::string> contents_;  // by id
  uint64_t next_id_ = 2, next_session_ = 1, tick_ = 1, highest_version_ = 0;
  uint64_t life_ = 0, pump_count_ = 0, end_at_pump_ = 0, up_at_ns_ = 0,
           call_deadline_ns_ = ~uint64_t{0}, late_count_ = 0;
  bool ends_ = true;  // the daemon may
  counters counted_;
  std::string wrong_;
};

}  // namespace tanada::test
