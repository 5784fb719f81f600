// products/poold/catalog.hpp: the catalog of namespaces and objects.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.hpp"
#include "products/poold/journal.hpp"
#include "products/poold/object.hpp"
#include "products/pool/name_counters.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

struct catalog_options {
  std::map<std::string, uint64_t> quotas;  // bytes, by namespace; "*": all others; 0: unlimited
  uint32_t namespace_count_max = 4096;     // namespaces not named in `quotas`
  uint64_t object_count_max = 16 << 20;    // names
  seams::clock *clock = &seams::monotonic_clock();  // its wall_ns() gives objects' creation times
  // In a cluster: the low bits of the versions of a namespace's objects, below
  // 2^version_tag_bits. Called under the catalog's mutex.
  std::function<uint64_t(const std::string &namespace_name)> version_tag = {};
  // Objects that it has may leave memory. Must outlive the catalog. Null: all stay in memory.
  cold_store *cold = nullptr;
  // This server has all stripes of its striped objects, so they are evicted with these.
  bool has_all_stripes = false;
};

// What an allocation may do for lack of memory.
enum class allocation {
  only_free,  // nothing
  immediate,  // let objects leave memory, and evict others
  may_wait,   // the same, but first wait for objects that are being written or read
};

// A server of a cluster has objects whose versions other servers have assigned, and its log
// identifies objects by their versions. So the versions of different servers must differ.
inline constexpr uint32_t version_tag_bits = 19;
inline constexpr uint32_t version_tick_bits = 18;  // of the clock's nanoseconds, in their count

struct catalog_statistics {
  uint64_t object_count = 0, committed_size = 0, commits = 0, opens = 0, evictions = 0;
  uint64_t cold_count = 0, cold_size = 0;  // objects that are not in memory, and their bytes
  uint64_t demotions = 0, promotions = 0;  // objects that left memory, and that came back
};

struct namespace_statistics {
  std::string name;
  uint64_t used = 0, object_count = 0, quota = 0;
  uint64_t owned = 0, segment_count = 0;  // of its segments; over a file: bytes in use, and 0
};

// Flags as include/tanada/pool.h numbers them.
inline constexpr uint32_t flag_evictable = 1, flag_pinned = 2;
using wire::pool::flag_striped;
// Flags that clients set, and all flags that are kept with an object.
inline constexpr uint32_t flags_of_clients = flag_evictable | flag_pinned,
                          flags_of_objects = flags_of_clients | flag_striped;
inline constexpr uint32_t flag_durable = 1 << 8, flag_exclusive = 1 << 9, flag_verify = 1 << 10,
                          flag_keep = 1 << 11;
constexpr bool is_evictable(uint32_t flags) noexcept {
  return (flags & flag_evictable) != 0 && (flags & flag_pinned) == 0;
}
inline constexpr uint32_t commit_flags = flag_durable | flag_verify;
static_assert(flags_of_objects == 7);
static_assert((flags_of_objects & (commit_flags | flag_exclusive | flag_keep)) == 0);

// The namespaces and the names of committed objects. It also allocates memory for new objects, and
// evicts others to make space. Thread-safe.
class catalog {
 public:
  // Nothing outlives the daemon if `durable` is null. Both must outlive the catalog.
  catalog(pool_memory &memory, journal *durable, catalog_options options);
  ~catalog();

  // Register a client of a namespace. Returns the namespace's number, which is valid until the
  // matching `close_namespace()` and is never reused. A namespace exists while it has objects or
  // clients that may write. Clients that only read see an empty namespace, which does not count.
  // no_space: there are too many namespaces. One that has objects or a quota is never refused.
  result<uint64_t> open_namespace(const std::string &namespace_name, bool can_write);

  // Unregister a client. Also drops the prepared objects of sets whose only participant is
  // `session`.
  void close_namespace(uint64_t namespace_id, bool can_write, uint64_t session);

  // The number of a namespace for an object that a restart restores. Never refused. The number is
  // valid while the namespace has objects, else until the next call of `open_namespace()`,
  // `close_namespace()` or `open_restored_namespace()`.
  uint64_t open_restored_namespace(const std::string &namespace_name);

  // Applies to objects created or grown from now on. Existing objects stay, even above the new
  // quota.
  void replace_quotas(std::map<std::string, uint64_t> quotas);

  // Create an object with memory for `size` bytes, evicting others if necessary. no_space: the pool
  // or the quota is full. With allocation::may_wait also: again: objects that are being written may
  // leave memory afterwards; busy: others are in use.
  result<object_ref> create_object(uint64_t namespace_id,
                                   uint64_t size,
                                   uint32_t flags,
                                   allocation mode = allocation::immediate);
  status grow(object &target, uint64_t size, allocation mode = allocation::immediate);

  // Create a striped object, whose namespace is charged for `size` bytes. Its id is not used again.
  result<object_ref> create_striped(uint64_t namespace_id,
                                    uint64_t size,
                                    uint32_t flags,
                                    const wire::pool::striped_id &id);
  // Charge for another size. no_space: the quota is full.
  status resize_striped(object &target, uint64_t size);
  // The manifest is written. protocol: the bytes are no manifest, or that of another object.
  status complete_striped(object &target);
  // Evict striped objects of the namespace that have so many bytes. Returns their bytes.
  uint64_t evict_striped(uint64_t namespace_id, uint64_t size);
  const std::shared_ptr<stripe_ledger> &striped() const noexcept {
    return striped_;
  }

  // Bind a name to an object. Its contents and metadata must be complete, except for the version
  // and the time, which are assigned here. `make_callback` is called with the final metadata, and
  // the callback that it returns is called once the journal has the change. Returns the version.
  // exists: flag_exclusive is set and the name is in use.
  using callback_maker = std::function<journal_callback(const info &)>;
  result<uint64_t> commit(const object_ref &object,
                          const std::string &name,
                          uint32_t flags,
                          const callback_maker &make_callback);

  // Prepared objects of a set get their names at `commit_set()`. `session` identifies a participant
  // of the set. no_space: there are too many sets. again: the set does not have exactly
  // `count` objects. exists: another object has the name of one with flag_exclusive.
  status join_set(uint64_t namespace_id, const std::string &set, uint64_t session);
  status prepare(const object_ref &object,
                 const std::string &name,
                 const std::string &set,
                 uint64_t session,
                 uint32_t flags);
  status commit_set(uint64_t namespace_id,
                    const std::string &set,
                    uint64_t count,
                    journal_callback done);

  // version 0: the newest. no_entry: no object has the name and version. `count_open`: count
  // the access as an open, and as a use that delays eviction.
  result<object_ref> open(uint64_t namespace_id,
                          const std::string &name,
                          uint64_t version,
                          bool count_open = true);

  // The same, with a reader of the object's bytes if it is cold.
  struct opened_object {
    object_ref object;
    std::shared_ptr<cold_reader> reader;  // null: the object is in memory
  };
  result<opened_object> open_bytes(uint64_t namespace_id,
                                   const std::string &name,
                                   uint64_t version,
                                   bool count_open = true);

  // Null: the object is in memory. Called by visitors of objects.
  std::shared_ptr<cold_reader> reader_of(const object &target) const {
    return target.is_cold() ? options_.cold->open_reader(target.logged_version) : nullptr;
  }

  // Create an instance of a cold object with memory that its bytes have to be read into. no_space,
  // again, busy: as create_object().
  result<object_ref> create_resident(const object_ref &cold, allocation mode);
  // The bytes are in this instance's memory. Replaces the cold one if it still has the name.
  // Returns the instance to be used.
  object_ref promote(const std::string &name, const object_ref &cold, const object_ref &resident);
  // A cold object that a restart restores.
  object_ref create_cold(uint64_t namespace_id, const info &about, uint32_t flags, uint64_t logged);
  bool is_tiered() const noexcept {
    return options_.cold != nullptr;
  }
  // Bytes of all objects, in memory or not.
  uint64_t stored_size() const noexcept {
    return pool_used_->load(std::memory_order_relaxed);
  }
  uint64_t stored_capacity() const {
    return is_tiered() ? options_.cold->capacity() : memory_.capacity();
  }

  // The metadata is null for a common prefix.
  using list_visitor = std::function<bool(const std::string &name, const info *metadata)>;

  // Call `visitor` with the entries of the list, in order, until it returns false. See
  // wire::pool::list_request.
  void list(uint64_t namespace_id, const list_request &request, const list_visitor &visitor);
  status rename(uint64_t namespace_id,
                const std::string &name,
                const std::string &new_name,
                uint32_t flags,
                journal_callback done);
  status remove(uint64_t namespace_id, const std::string &name, journal_callback done);
  status set_flags(uint64_t namespace_id,
                   const std::string &name,
                   uint32_t flags,
                   journal_callback done);

  // Create an object that a restart restores, or another server sends; quotas do not apply.
  // no_space: the pool is full. again, busy: as create_object().
  result<object_ref> create_restored(uint64_t namespace_id,
                                     uint64_t size,
                                     uint32_t flags,
                                     allocation mode = allocation::immediate);

  // The same at its place in the backing file. busy: another object uses a part of it. invalid: the
  // ranges are out of bounds, misaligned or smaller than `size`.
  result<object_ref> create_at(uint64_t namespace_id,
                               uint64_t size,
                               uint32_t flags,
                               const std::vector<wire::pool::range> &places);

  // Create an object whose bytes the restart could not restore. It keeps its ranges of the file, if
  // all of them are free, until it is replaced or removed.
  object_ref create_damaged(uint64_t namespace_id,
                            uint32_t flags,
                            const std::vector<wire::pool::range> &places);

  // The number of a namespace, which stays valid until `close_namespace(number, true, 0)`. Never
  // refused.
  uint64_t hold_namespace(const std::string &namespace_name);

  // Make changes of another server: all of them at once, with their versions and times. The
  // objects were created for the namespace. Names that a change expects and that do not exist are
  // ignored.
  // `check` is called first, under the catalog's mutex; its error is returned.
  status apply(uint64_t namespace_id,
               const std::function<status()> &check,
               std::vector<change> changes,
               journal_callback done);

  // Append what these names are to the journal, which has failed to write their changes. The names
  // that are left out are those beyond a bound of their bytes, and damaged objects.
  void rewrite(std::span<const poold::object_place> places, journal_callback done);

  // Calls `action` while no change is made.
  void exclude_changes(const std::function<void()> &action);

  // Objects of the namespaces that `filter` accepts, by namespace and name, after those given.
  // Calls `visitor` under the catalog's mutex until it returns false or `count_max` objects were
  // visited. Returns false if no object is left.
  using object_place = poold::object_place;
  using namespace_filter = std::function<bool(const std::string &namespace_name)>;
  using object_visitor = std::function<bool(const object_place &place, const object_ref &object)>;
  bool visit_objects(const namespace_filter &filter,
                     object_place after,
                     size_t count_max,
                     const object_visitor &visitor);

  // Calls `visitor` under the catalog's mutex for each place; null: no object is there.
  void visit_places(
      std::span<const object_place> places,
      const std::function<void(const object_place &place, const object_ref &object)> &visitor);

  // What a committed striped object consists of. protocol: its bytes are no manifest.
  static result<wire::pool::stripe_manifest> manifest_of(const object &source);

  // The stripes and fragments of a striped object that this server has.
  std::vector<object_place> find_stripes(const striped_key &key);
  // Remove them, where this server has all stripes.
  void remove_stripes(const striped_key &key);
  // Set striped objects aside that lack stripes, and log them. Returns their number.
  size_t set_aside_incomplete();

  // Bind the name of a restored object. Not journaled.
  void restore(const std::string &name, const object_ref &object);
  void raise_version(uint64_t highest);

  // Check the memory for losses, and log a line for each object that lost bytes. Such an object can
  // be listed, renamed and removed. Sessions do not read it: they check `object::is_intact()`.
  void check_memory();

  // The descriptor of the name counters, which clients of this node may map read-only. The catalog
  // keeps it open. -1: the counters could not be created.
  int counters_descriptor(uint64_t namespace_id);

  catalog_statistics statistics() const;
  namespace_statistics statistics_for(uint64_t namespace_id) const;
  std::vector<namespace_statistics> all_namespaces() const;
  bool is_durable() const noexcept {
    return journal_ != nullptr && journal_->is_durable();
  }
  bool is_congested() const {
    return journal_ != nullptr && journal_->is_congested();
  }

 private:
  struct entry;
  using entries = std::map<std::string, entry>;
  struct eviction {
    std::list<entries::iterator>::iterator position;  // in `evictable`
    uint64_t last_use_tick = 0;
  };
  struct resident_place;
  using residents = std::list<resident_place>;
  struct list_places {
    std::optional<eviction> evictable;            // none: it may not be evicted
    std::optional<residents::iterator> resident;  // none: it is cold, or stays in memory
  };
  struct entry {
    object_ref object;
    std::unique_ptr<list_places> places;  // null: it is in neither list
    bool is_evictable() const noexcept {
      return places != nullptr && places->evictable.has_value();
    }
    bool is_resident() const noexcept {
      return places != nullptr && places->resident.has_value();
    }
    list_places &added_places() {
      if (places == nullptr)
        places = std::make_unique<list_places>();
      return *places;
    }
    void drop_unused_places() noexcept {
      if (!is_evictable() && !is_resident())
        places.reset();
    }
  };
  struct object_set {
    struct prepared_object {
      object_ref object;
      bool is_exclusive = false;
    };
    std::map<std::string, prepared_object> prepared;
    std::set<uint64_t> sessions;
  };
  struct namespace_state {
    namespace_state() = default;
    namespace_state(const namespace_state &) = delete;
    namespace_state &operator=(const namespace_state &) = delete;
    ~namespace_state();
    bool exists() const {
      return writer_count > 0 || !objects.empty() || account->used.load() > 0;
    }
    // For messages: a hidden namespace has the name of the user's namespace that it is for.
    std::string user_name() const {
      return wire::pool::hidden_space_owner(name).value_or(name);
    }

    std::string name;
    std::shared_ptr<owner_account> account = std::make_shared<owner_account>();
    uint64_t quota = 0;
    uint32_t writer_count = 0, reader_count = 0;  // clients that may write, or only read
    bool is_counted = false;                      // towards namespace_count_max
    entries objects;
    std::list<entries::iterator> evictable;  // the least recently used first
    std::map<std::string, object_set> sets;
    pool::name_counters *counters = nullptr;
    int counters_descriptor = -1;
  };
  struct resident_place {
    namespace_state *state;
    entries::iterator position;
  };
  // Why no object can leave memory.
  struct demotion_obstacles {
    bool has_writes = false;  // objects are not in the log yet
    bool has_users = false;   // objects are in use
  };

  namespace_state &state_for(uint64_t namespace_id) TND_REQUIRES(mutex_);
  const namespace_state &state_for(uint64_t namespace_id) const TND_REQUIRES(mutex_);
  namespace_state &find_or_create(const std::string &namespace_name) TND_REQUIRES(mutex_);
  void set_counted(namespace_state &state, bool is_counted) TND_REQUIRES(mutex_);
  void remove_unused() TND_REQUIRES(mutex_);
  bool is_uncounted(const std::string &namespace_name) const TND_REQUIRES(mutex_);
  uint64_t quota_for(const std::string &namespace_name) const TND_REQUIRES(mutex_);
  object_ref bind(namespace_state &state, const std::string &name, const object_ref &object)
      TND_REQUIRES(mutex_);
  object_ref unbind(namespace_state &state, entries::iterator it) TND_REQUIRES(mutex_);
  void mark_used(namespace_state &state, entries::iterator it) TND_REQUIRES(mutex_);
  void update_eviction(namespace_state &state, entries::iterator it) TND_REQUIRES(mutex_);
  void remove_eviction(namespace_state &state, entry &target) TND_REQUIRES(mutex_);
  void bump_counter(namespace_state &state, const std::string &name) TND_REQUIRES(mutex_);
  // Which objects an eviction may choose.
  struct eviction_scope {
    bool only_there = false, only_resident = false;
  };
  bool is_victim(const entry &candidate, eviction_scope scope) const;
  bool evict_one(namespace_state &preferred, eviction_scope scope) TND_REQUIRES(mutex_);
  static bool is_striped(const object &target) {
    return (target.flags.load() & flag_striped) != 0;
  }
  uint64_t size_to_evict(const object &target) const;
  std::vector<object_place> find_stripes_locked(const striped_key &key) const TND_REQUIRES(mutex_);
  void remove_stripes_locked(const striped_key &key) TND_REQUIRES(mutex_);
  object_ref stripe_of(const namespace_state &state,
                       const wire::pool::stripe_manifest &manifest,
                       size_t index) const TND_REQUIRES(mutex_);
  std::vector<uint64_t> stripe_versions_of(const namespace_state &state, const object &target) const
      TND_REQUIRES(mutex_);
  bool has_stripes_of(const namespace_state &state,
                      const wire::pool::stripe_manifest &manifest) const TND_REQUIRES(mutex_);
  uint64_t evict_heads(namespace_state &state, uint64_t size) TND_REQUIRES(mutex_);
  void update_residence(namespace_state &state, entries::iterator it) TND_REQUIRES(mutex_);
  void remove_residence(entry &target) TND_REQUIRES(mutex_);
  void count_cold(const object &target, bool adds) TND_REQUIRES(mutex_);
  void replace_instance(namespace_state &state, entries::iterator it, const object_ref &instance)
      TND_REQUIRES(mutex_);
  bool demote_one(demotion_obstacles &obstacles) TND_REQUIRES(mutex_);
  void demote(const resident_place &place) TND_REQUIRES(mutex_);
  result<entries::iterator> find_version(namespace_state &state,
                                         const std::string &name,
                                         uint64_t version) TND_REQUIRES(mutex_);
  result<object_ref> open_locked(uint64_t namespace_id,
                                 const std::string &name,
                                 uint64_t version,
                                 bool count_open) TND_REQUIRES(mutex_);
  status allocate_memory(namespace_state &state,
                         uint64_t size,
                         allocation mode,
                         std::vector<pool_extent> &pieces) TND_REQUIRES(mutex_);
  status allocate_stored(namespace_state &state, uint64_t size) TND_REQUIRES(mutex_);
  bool could_fit(uint64_t size) const TND_REQUIRES(mutex_);
  void evict(namespace_state &state, entries::iterator it) TND_REQUIRES(mutex_);
  void append_changes(std::vector<change> changes,
                      std::vector<object_ref> superseded,
                      journal_callback done) TND_REQUIRES(mutex_);
  status allocate_in_quota(namespace_state &state,
                           uint64_t size,
                           allocation mode,
                           std::vector<pool_extent> &pieces) TND_REQUIRES(mutex_);
  status allocate_or_evict(namespace_state &state,
                           uint64_t size,
                           allocation mode,
                           std::vector<pool_extent> &pieces) TND_REQUIRES(mutex_);
  status fail_held() const;
  status fail_no_space(const namespace_state &state, uint64_t size) const TND_REQUIRES(mutex_);
  namespace_statistics describe(const namespace_state &state) const TND_REQUIRES(mutex_);
  object_ref make_object(namespace_state &state, std::vector<pool_extent> pieces, uint32_t flags)
      TND_REQUIRES(mutex_);
  uint64_t next_version(const namespace_state &state, uint64_t wall_ns) TND_REQUIRES(mutex_);
  void commit_locked(namespace_state &state,
                     const std::string &name,
                     const object_ref &object,
                     std::vector<change> &changes,
                     std::vector<object_ref> &superseded) TND_REQUIRES(mutex_);
  void log_losses();
  object_ref find_locked(const object_place &place) const TND_REQUIRES(mutex_);
  object_ref apply_locked(namespace_state &state, change &target) TND_REQUIRES(mutex_);
  status allocate_quota(namespace_state &state, uint64_t size) TND_REQUIRES(mutex_);
  // Reads the manifest of an object of another server or run.
  void adopt_manifest(namespace_state &state, object &target) TND_REQUIRES(mutex_);
  object_ref apply_put(namespace_state &state, change &target) TND_REQUIRES(mutex_);
  object_ref apply_remove(namespace_state &state, change &target) TND_REQUIRES(mutex_);
  object_ref apply_rename(namespace_state &state, change &target) TND_REQUIRES(mutex_);
  void apply_flags(namespace_state &state, change &target) TND_REQUIRES(mutex_);

  pool_memory &memory_;
  journal *const journal_;
  std::shared_ptr<stripe_ledger> const striped_ = std::make_shared<stripe_ledger>();
  catalog_options options_;  // the mutex guards its quotas
  mutable mutex mutex_;
  // By id.
  std::map<uint64_t, std::unique_ptr<namespace_state>> namespaces_ TND_GUARDED_BY(mutex_);
  std::unordered_map<std::string, uint64_t> ids_ TND_GUARDED_BY(mutex_);
  // Namespaces that may have lost their last client or object: checked by the next
  // `open_namespace()` or `close_namespace()`.
  std::set<uint64_t> maybe_unused_ TND_GUARDED_BY(mutex_);
  // Never reused, because free segments keep their last owner's id.
  uint64_t next_namespace_id_ TND_GUARDED_BY(mutex_) = 0;
  uint32_t counted_namespaces_ TND_GUARDED_BY(mutex_) = 0;
  uint64_t last_version_ TND_GUARDED_BY(mutex_) = 0, tick_ TND_GUARDED_BY(mutex_) = 0;
  // Bytes that the eviction of all objects in `evictable` lists frees.
  uint64_t evictable_size_ TND_GUARDED_BY(mutex_) = 0;
  // Objects that may leave memory, the least recently used first, and their memory. Objects that
  // are not in the log yet or are in use are among them.
  residents residents_ TND_GUARDED_BY(mutex_);
  uint64_t residents_size_ TND_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<std::atomic<uint64_t>> const pool_used_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  catalog_statistics statistics_ TND_GUARDED_BY(mutex_);
  std::atomic<uint64_t> logged_loss_count_{0};  // memory_.loss_count() when losses were last logged
};

}  // namespace tanada::poold
