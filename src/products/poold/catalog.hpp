// products/poold/catalog.hpp: which objects there are.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "products/poold/journal.hpp"
#include "products/poold/object.hpp"
#include "products/pool/shared.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

struct catalog_options {
  std::map<std::string, uint64_t> quotas;  // bytes, of namespaces; "*" for those not named; 0: none
  uint32_t space_count_max = 4096;         // namespaces that `quotas` does not name
  uint64_t object_count_max = 16 << 20;    // names
  port::clock *time = &port::monotonic_clock();  // its wall_ns() is when objects were created
};

struct catalog_statistics {
  uint64_t object_count = 0, committed_size = 0, commits = 0, opens = 0, evictions = 0;
};

struct space_statistics {
  std::string name;
  uint64_t used = 0, object_count = 0, quota = 0;
  uint64_t owned = 0, segment_count = 0;  // memory that is bound to it; of a file: what is used
};

// Flags as include/tanada/pool.h numbers them.
inline constexpr uint32_t flag_evictable = 1, flag_pinned = 2, flags_of_objects = 3;
inline constexpr uint32_t flag_durable = 1 << 8, flag_exclusive = 1 << 9, flag_verify = 1 << 10,
                          flag_keep = 1 << 11;
inline constexpr uint32_t commit_flags = flag_durable | flag_verify;

// Namespaces, the committed objects' names, and room for new ones. Thread-safe.
class catalog {
 public:
  // `durable` may be null: nothing outlives the daemon then. Both outlive the catalog.
  catalog(space &memory, journal *durable, catalog_options options);
  ~catalog();

  // A client comes; the number of its namespace, which is good until the client leaves and is never
  // used again. A namespace exists while it has objects, or clients that may write: those that only
  // read find an empty one, which counts for nothing. no_space: there are too many; those that have
  // objects or a quota are never refused.
  result<uint64_t> enter(const std::string &space_name, bool can_write);

  // The client goes, and what it had prepared in sets in which nobody else takes part. `session` is
  // whoever did.
  void leave(uint64_t space_id, bool can_write, uint64_t session);

  // For an object as it was before the daemon's restart; never refused. Good until the next one, or
  // for as long as the namespace has objects.
  uint64_t enter_restored(const std::string &space_name);

  // Takes effect for what is created from now on; what is there stays, over its new quota or not.
  void replace_quotas(std::map<std::string, uint64_t> quotas);

  // A new object with room for `size` bytes; drops evictable objects for it. no_space: the pool or
  // the quota is full.
  result<object_ref> begin(uint64_t space_id, uint64_t size, uint32_t flags);
  status grow(object &target, uint64_t size);

  // Bind a name to an object, whose contents and `about`, but its version and time, are complete.
  // What `done_of` makes of the object as it is then is called once the journal has it. exists:
  // flag_exclusive and there is one. Returns the version.
  using done_maker = std::function<journal_done(const info &)>;
  result<uint64_t> commit(const object_ref &made, const std::string &name, uint32_t flags,
                          const done_maker &done_of);

  // An object of a set waits for set_commit. `session` is whoever takes part.
  status join_set(uint64_t space_id, const std::string &set, uint64_t session);
  status prepare(const object_ref &made, const std::string &name, const std::string &set,
                 uint64_t session);
  status set_commit(uint64_t space_id, const std::string &set, uint64_t count, journal_done done);

  // version 0: the newest. no_entry.
  result<object_ref> open(uint64_t space_id, const std::string &name, uint64_t version,
                          bool counts = true);

  // Names that begin with prefix and lie behind `after`, in order, until `take` returns false.
  void list(uint64_t space_id, const std::string &prefix, const std::string &after,
            const std::function<bool(const std::string &, const info &)> &take);
  status rename(uint64_t space_id, const std::string &name, const std::string &new_name,
                uint32_t flags, journal_done done);
  status remove(uint64_t space_id, const std::string &name, journal_done done);
  status set_flags(uint64_t space_id, const std::string &name, uint32_t flags, journal_done done);

  // Memory for an object as it was before the daemon's restart, which no quota refuses. no_space:
  // the pool is full.
  result<object_ref> begin_restored(uint64_t space_id, uint64_t size, uint32_t flags);

  // The same where it lies in the backing file. busy: another object has a part of that; invalid:
  // it cannot lie there.
  result<object_ref> begin_at(uint64_t space_id, uint64_t size, uint32_t flags,
                              const std::vector<wire::pool::range> &places);

  // An object whose bytes the restart could not bring back. Its places, where they are free, stay
  // its own until it is replaced or removed.
  object_ref begin_damaged(uint64_t space_id, uint32_t flags,
                           const std::vector<wire::pool::range> &places);

  // An object as it was before the daemon's restart. Not journaled.
  void restore(const std::string &name, const object_ref &found);
  void restore_version(uint64_t highest);

  // Look whether the memory is all there still; a line in the log for each object that is not. Once
  // it was found damaged, an object can be listed, renamed and removed, and is read by nobody:
  // sessions ask object::is_whole.
  void look_at_memory();

  // Of the counters that clients of this node may map, read-only. -1: none could be made.
  int counters_descriptor(uint64_t space_id);

  catalog_statistics statistics() const;
  space_statistics statistics_of(uint64_t space_id) const;
  std::vector<space_statistics> all_spaces() const;
  bool is_durable() const noexcept {
    return journal_ != nullptr;
  }
  bool is_behind() const {
    return journal_ != nullptr && journal_->is_behind();
  }

 private:
  struct entry;
  using entries = std::map<std::string, entry>;
  struct entry {
    object_ref object;
    uint64_t used_tick = 0;
    std::optional<std::list<entries::iterator>::iterator> place;  // among those that may be dropped
  };
  struct set_state {
    std::map<std::string, object_ref> prepared;
    std::set<uint64_t> sessions;
  };
  struct space_state {
    space_state() = default;
    space_state(const space_state &) = delete;
    space_state &operator=(const space_state &) = delete;
    ~space_state();
    bool exists() const {
      return writer_count > 0 || !objects.empty() || account->used.load() > 0;
    }

    std::string name;
    std::shared_ptr<owner_account> account = std::make_shared<owner_account>();
    uint64_t quota = 0;
    uint32_t writer_count = 0, reader_count = 0;  // clients
    bool is_counted = false;                      // among space_count_max
    entries objects;
    std::list<entries::iterator> droppable;  // the one unused longest first
    std::map<std::string, set_state> sets;
    pool::name_counters *counters = nullptr;
    int counters_descriptor = -1;
  };

  // All of these: the mutex is held.
  space_state &state_of(uint64_t space_id);
  const space_state &state_of(uint64_t space_id) const;
  space_state &find_or_make(const std::string &space_name);
  void count(space_state &which, bool is_counted);
  void drop_unused();
  uint64_t quota_of(const std::string &space_name) const;
  object_ref bind(space_state &in, const std::string &name, const object_ref &made);
  object_ref unbind(space_state &in, entries::iterator which);
  void touch(space_state &in, entries::iterator which);
  void place(space_state &in, entries::iterator which);
  void unplace(space_state &in, entry &one);
  void bump(space_state &in, const std::string &name);
  bool drop_one(space_state &preferred, bool only_there);
  void append(std::vector<change> changes, std::vector<object_ref> superseded, journal_done done);
  status make_room(space_state &in, uint64_t size, std::vector<piece> &pieces);
  status make_memory_room(space_state &in, uint64_t size, std::vector<piece> &pieces);
  status fail_full(const space_state &in, uint64_t size) const;
  space_statistics described(const space_state &in) const;
  object_ref made_of(space_state &in, std::vector<piece> pieces, uint32_t flags);
  void publish(space_state &in, const std::string &name, const object_ref &made,
               std::vector<change> &changes, std::vector<object_ref> &superseded);
  void tell_losses();

  space &memory_;
  journal *const journal_;
  catalog_options options_;  // its quotas: the mutex is held
  mutable std::mutex mutex_;
  std::map<uint64_t, std::unique_ptr<space_state>> spaces_;  // by number
  std::unordered_map<std::string, uint64_t> ids_;
  // Namespaces that may have lost their last client or object: they go with the next client.
  std::set<uint64_t> maybe_unused_;
  uint64_t next_space_id_ = 0;  // never used again: memory remembers whose it was
  uint32_t counted_spaces_ = 0;
  uint64_t last_version_ = 0, tick_ = 0;
  uint64_t droppable_size_ = 0;  // bytes of what may be dropped
  catalog_statistics counted_;
  std::atomic<uint64_t> told_loss_count_{0};  // losses of memory_ that the log has its lines for
};

}  // namespace tanada::poold
