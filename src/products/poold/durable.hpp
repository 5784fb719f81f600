// products/poold/durable.hpp: the journal that writes to the pool's log, in files on flash or
// beside a backing file.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "backends/registry/store_registry.hpp"
#include "core/base/mutex.hpp"
#include "products/poold/catalog.hpp"
#include "products/poold/journal.hpp"
#include "products/poold/log/group_gate.hpp"
#include "products/poold/log/log.hpp"
#include "products/poold/log/reserve_file.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

struct durable_options {
  std::string folder;                              // for the log's files; created if missing
  bool with_data = true;                           // false: the bytes are in the backing file
  uint64_t size_max = ~uint64_t{0};                // bytes of the log
  uint64_t congestion_size = uint64_t{256} << 20;  // with more pending bytes, commits wait
  // Of a log with data: objects may leave memory, and a restart reads only those that stay there.
  bool is_tiered = false;
  // A restart compares the checksums of these objects as well: another server of the cluster may
  // have an intact copy.
  bool checks_cold = false;
};

// The names for which a failed log differs from the catalog.
//
// A failed transaction has no effect in the log, but it stays in effect in the catalog. An object
// may therefore be missing from the log, or be there under another name. The log may also keep
// stale objects under a name; removing the name must remove them, too. The log identifies objects
// by version, so a rename moves an object whatever its name in the log is. The next object that the
// log accepts under a name ends the divergence of that name. Used by one thread.
class log_divergence {
 public:
  // Record a failed transaction. `order` is its position among all that were appended. A failure
  // may be recorded before the outcome of earlier transactions.
  void record_failed(const std::vector<change> &changes, uint64_t order, status cause);

  // Record changes that the log has made durable. Adds to `follow_ups` the removals of stale
  // objects that must be logged before these changes count as durable. They follow all that was
  // appended in the meantime, which may rename those objects. An error: a change refers to an
  // object that is not in the log; the status is that of the failure which kept it out.
  status record_logged(const std::vector<change> &changes,
                       uint64_t order,
                       std::vector<change> &follow_ups);

  // Call it when everything appended before these removals has completed. They follow the
  // transaction at `order`. Keeps only the removals that are still necessary, and records them as
  // done.
  void begin_follow_ups(std::vector<change> &removals, uint64_t order);

 private:
  struct divergence {
    uint64_t unlogged_version = 0;  // the version with this name in the catalog, but not in the log
    uint64_t order = 0;             // of the failed transaction that assigned the name
    status cause = status::ok;      // of that transaction
    std::string logged_name =
        {};  // the name under which the log may have it; empty: not in the log
    std::map<uint64_t, uint64_t> stale_versions =
        {};  // stale versions in the log -> order of the failed transaction that replaced them
  };
  using key = std::pair<std::string, std::string>;  // namespace, name

  void record_unlogged(const change &update, uint64_t order, status cause);
  std::string rename_unlogged(const change &update, uint64_t order);
  void record_failed_removal(const change &update, uint64_t order);
  void mark_logged(const key &name, uint64_t order, uint64_t version);
  void add_follow_ups(const key &name, uint64_t order, std::vector<change> &follow_ups);
  bool erase_stale(const key &name, uint64_t version);

  std::map<key, divergence> divergences_;
};

// The versions that the log has instead of the catalog's.
//
// The log knows a version once and for all: its removal counts whatever the order of the records. A
// server of a cluster may get a version again: of an object that it gave up and gets back, or under
// a new name before the removal of the old one. The log then gets an alias, which is the object's
// version after a restart. Until then the other servers have the original one, so the comparison
// with them sends the object once more. Used by one thread.
class version_aliases {
 public:
  using predicate = std::function<bool(uint64_t version)>;

  // The version for the log. Call it for all changes, in their order.
  uint64_t translate(const change &update, const predicate &is_known, uint64_t wall_ns);

 private:
  struct alias {
    uint64_t version, logged;
  };
  using key = std::pair<std::string, std::string>;  // namespace, name

  std::map<key, alias> aliases_;
};

// The names for which a log may differ from the catalog, because a transaction failed that changed
// them. Thread-safe.
class unwritten_names {
 public:
  // `order`: see log_divergence.
  void record_failed(const std::vector<change> &changes, uint64_t order, status cause);
  // `follow_ups` are still to be logged.
  void record_logged(const std::vector<change> &changes,
                     uint64_t order,
                     const std::vector<change> &follow_ups);
  journal_condition condition() const;
  std::vector<object_place> places(size_t count_max) const;

 private:
  mutable mutex mutex_;
  std::map<object_place, uint64_t> orders_ TND_GUARDED_BY(mutex_);  // of the last failure
  status cause_ TND_GUARDED_BY(mutex_) = status::ok;
};

// One thread drives the log: that of start(), or the caller's by `progress()`. Changes are written
// in the background, in the order in which the catalog appends them.
//
// Over a backing file, transactions that wait at the same time are one group: one sync of their
// bytes in the file, then one of the log. A group begins when the log has completed the previous
// one, and its gate lets it: all that arrived meanwhile takes fewer syncs than two smaller groups
// that overlap.
class durable_journal final : public journal, public cold_store {
 public:
  // Open the log in a folder, under a lock. busy: another daemon has locked the folder. Other
  // errors are those of the file system, the store and the log, with a message.
  static result<std::unique_ptr<durable_journal>> open(pool_memory &memory,
                                                       const durable_options &options);

  // The same with a given store and clock, which must outlive the journal. Takes no lock: the
  // caller ensures that nothing else uses settings.url.
  static result<std::unique_ptr<durable_journal>> open_with(seams::store &store,
                                                            seams::clock &clock,
                                                            pool_memory &memory,
                                                            const durable_options &options,
                                                            pool::log_options settings);

  // Pending changes are lost: call stop() or drain() first.
  ~durable_journal() override;

  // Restore the durable objects: read their bytes into memory, or claim their pieces of the backing
  // file. Of a tiered log, objects that may leave memory are not read. Call it before start(). A
  // damaged object is logged and kept aside: it stays in the store, and its name stays in the
  // catalog without its bytes, until it is replaced or removed. A damaged evictable object is
  // dropped. no_space: the pool is smaller than its objects. no_memory: memory is insufficient.
  // timed_out: the store does not answer.
  status restore(catalog &target);
  // Whether changes or objects that were durable are damaged in the log.
  bool has_losses() const {
    return log_->has_losses() || has_damaged_;
  }
  void start();
  // End the thread once everything is written, or at the deadline of the journal's clock.
  void stop(uint64_t deadline_ns);

  // Without start(): submit pending changes and poll the log, without blocking. Returns whether
  // anything completed.
  bool progress();
  // Without start(): as stop(). timed_out: changes are left. Else the status of the log's drain.
  status drain(uint64_t deadline_ns);

  void append(std::vector<change> changes,
              std::vector<object_ref> superseded,
              journal_callback done) override;
  bool is_congested() const override;
  journal_condition condition() const override {
    return unwritten_.condition();
  }
  std::vector<object_place> unwritten_places(size_t count_max) const override {
    return unwritten_.places(count_max);
  }

  // Of a tiered log.
  std::shared_ptr<cold_reader> open_reader(uint64_t logged_version) override;
  bool is_writing() const override;
  uint64_t capacity() const override;

 private:
  class log_reader;
  struct entry {
    std::vector<change> changes;
    std::vector<object_ref> superseded;
    journal_callback callback;
    uint64_t size = 0, order = 0;
    uint64_t completed_order = 0;  // not 0: these removals complete the transaction of this order
    bool is_synced = false;        // of a backing file: its bytes were synced, with this outcome
    status sync_outcome = status::ok;
    pool::transaction transaction =
        {};  // once submitted; kept, because the log may request a retry
  };

  struct held_object {
    object_ref object;
    uint64_t order;  // of the transaction that superseded it
  };

  durable_journal(seams::clock &clock, pool_memory &memory, durable_options options)
      : clock_{clock}, memory_{memory}, options_{std::move(options)} {}
  status lock_folder();
  status restrict_permissions() const;
  status open_log(seams::store &store, pool::log_options settings);
  void run();
  void push(std::shared_ptr<entry> item);
  std::vector<std::shared_ptr<entry>> unsynced_entries() TND_REQUIRES(mutex_);
  bool may_begin_group() TND_REQUIRES(mutex_);
  void sync_entries(const std::vector<std::shared_ptr<entry>> &entries);
  bool has_to_wait(const entry &item) const TND_REQUIRES(mutex_);
  status submit(const std::shared_ptr<entry> &item);
  status make_transaction(const entry &item, pool::transaction &changes);
  bool is_logged(uint64_t version) const;
  status check_stripes(const change &put) const;
  void note_submitted(const pool::transaction &changes);
  void note_completed(const pool::transaction &changes);
  status make_put(const change &source, pool::change &logged);
  void add_extents(const object &source, pool::change &logged) const;
  void complete(entry &item, status code);
  status record_outcome(entry &item, status code, std::vector<change> &follow_ups);
  void log_condition(const journal_condition &before);
  // Restore (durable_restore.cc).
  struct placed_object {
    uint64_t file_sequence, offset;  // of its bytes in the log, or 0 and its offset in the file
    uint64_t size, version;
  };
  // A part of the log that has been read, with the bytes of small objects.
  struct log_window {
    uint64_t file_sequence = 0, offset = 0;
    std::vector<std::byte> bytes = {};

    bool contains(const pool::live_object &source) const;
    void copy_to(const pool::live_object &source, std::span<const iovec> parts) const;
  };
  using damaged_objects = std::vector<std::pair<pool::live_object, status>>;
  struct restored_objects {
    std::map<uint64_t, result<object_ref>> large = {};  // by version; not bound yet
    damaged_objects damaged = {};
    size_t count = 0;
  };
  using read_starter = std::function<status(pool::durable_log &, std::function<void(status)>)>;
  std::vector<placed_object> objects_by_place() const;
  status restore_first(catalog &target,
                       std::span<const placed_object> objects,
                       log_window &window,
                       restored_objects &restored);
  void read_window(const pool::live_object &source,
                   std::span<const placed_object> objects,
                   log_window &window);
  status record_damaged(const pool::live_object &source,
                        status cause,
                        damaged_objects &damaged) const;
  status check_size() const;
  std::vector<uint64_t> reserve(catalog &target);
  void restore_large(catalog &target,
                     std::span<const placed_object> objects,
                     restored_objects &restored);
  void bind_restored(catalog &target, const pool::live_object &source, const object_ref &restored);
  result<object_ref> restore_object(catalog &target,
                                    const pool::live_object &source,
                                    const log_window &window);
  size_t keep_all_damaged(catalog &target, const damaged_objects &damaged);
  bool keep_damaged(catalog &target, const pool::live_object &source, status cause);
  status check_bytes(const pool::live_object &source, const log_window &window, object &target);
  status read_back(const pool::live_object &source, object &target);
  status wait_for_read(const read_starter &start_read);

  void hold_superseded(entry &item, bool is_kept);
  // Cold objects (durable_cold.cc).
  void post_work(std::function<void()> work);
  bool run_work();
  void end_work();
  void note_outcome(const entry &item, bool is_kept);
  void note_logged(const entry &item);
  void hold_unmoved(const entry &item);
  bool is_restored_cold(const pool::live_object &source) const;
  size_t restore_all_cold(catalog &target, restored_objects &restored);
  status check_logged(const pool::live_object &source);
  void update_discardable(const entry &item, bool is_kept) const;

  static constexpr uint64_t idle_pause_ns = 50'000;  // between two polls of a busy log

  seams::clock &clock_;
  pool_memory &memory_;
  durable_options const options_;
  int lock_ = -1;
  backends::store_registry stores_;
  std::unique_ptr<pool::reserve_file> reserve_;
  std::unique_ptr<pool::durable_log> log_;
  version_aliases aliases_;                     // used only by the thread that drives the log
  std::multiset<uint64_t> submitted_versions_;  // of puts in incomplete transactions; likewise
  bool has_damaged_ = false;                    // objects that restore() kept aside
  unwritten_names unwritten_;
  log_divergence divergence_;  // used only by the thread that drives the log
  // Objects that the catalog has dropped and the log, after a failure, has not. A restart brings
  // them back, so their memory must not be reused. Used only by the same thread.
  std::vector<held_object> held_objects_;
  // Of cold objects whose rename the log does not have: a later change may remove them from it.
  // By the version in the log. Used only by the same thread.
  std::map<uint64_t, std::shared_ptr<const log_reader>> held_readers_;
  mutable mutex mutex_;
  condition_variable wake_;
  std::vector<std::function<void()>> work_ TND_GUARDED_BY(mutex_);  // reads and claims of readers
  bool has_ended_work_ TND_GUARDED_BY(mutex_) = false;
  std::deque<std::shared_ptr<entry>> queue_ TND_GUARDED_BY(mutex_);
  uint64_t pending_size_ TND_GUARDED_BY(mutex_) = 0;  // bytes of all incomplete entries
  uint64_t pending_count_ TND_GUARDED_BY(mutex_) = 0;
  uint64_t last_order_ TND_GUARDED_BY(mutex_) = 0;
  uint64_t pending_peak_ TND_GUARDED_BY(mutex_) = 0;  // of pending_count_, since the last group
  pool::group_gate gate_ TND_GUARDED_BY(mutex_);      // of groups over a backing file
  bool is_stopping_ TND_GUARDED_BY(mutex_) = false;
  uint64_t stop_deadline_ns_ TND_GUARDED_BY(mutex_) = ~uint64_t{0};
  std::thread thread_;
};

}  // namespace tanada::poold
