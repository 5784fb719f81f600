// products/poold/log/log.hpp: the log that makes the commits of a pool durable.
#pragma once

#include <memory>
#include <optional>

#include "core/base/result.hpp"
#include "products/poold/log/types.hpp"
#include "seams/clock/clock.hpp"
#include "seams/store/store.hpp"

namespace tanada::pool {

struct log_counters {
  uint64_t stored_size = 0;  // bytes of all files
  uint64_t file_count = 0, object_count = 0;
  uint64_t moved_size = 0;  // bytes written by compaction since the log was opened
  uint64_t sync_count = 0;  // synced groups since the log was opened
  uint64_t queued_count = 0,
           queued_size = 0;  // queued transactions that are in no group yet, and their bytes
};

struct log_file;

// The place of a durable object's bytes. They stay readable there until unpin(), also if the object
// is removed or moved to another file meanwhile.
struct pinned_object {
  std::shared_ptr<log_file> file;
  uint64_t offset = 0, size = 0;  // bytes
  checksum_kind kind{};
  uint64_t checksum = 0;
};

// Writes transactions to log files in a folder. The caller ensures that only one log uses the
// folder at a time. In a log with data (flash), records contain the objects' bytes. A journal
// contains their ranges in a backing file, where the caller must sync them before append().
//
// Used by one thread at a time. All work is done in poll() and drain(), which also run the
// callbacks. Callbacks may call append() and read().
class durable_log {
 public:
  using status_function = std::function<void(status)>;

  // Recovers the folder's log (see recovery.hpp), which reads all metadata. The store and the clock
  // must outlive the log. invalid: the options are inconsistent. Other errors are those of
  // recover() and the store.
  static result<std::unique_ptr<durable_log>> open(seams::store &store,
                                                   seams::clock &clock,
                                                   log_options options);

  // Transactions whose callback has not run may be durable or not; their callbacks are not called.
  // The store's operations end before this returns. With operations in flight, files stay open in
  // the store, so call drain() first.
  ~durable_log();

  // Make a transaction durable. `done` is called exactly once if this returns ok, else never, with:
  // - ok: the transaction and all earlier successful ones are durable.
  //
  // - no_space: the store is full, or size_max is reached. Removing objects frees space later, by
  // compaction. With options.reserve, a full store accepts transactions without puts. It refuses
  // others until the reserve can be acquired again.
  //
  // - another status of the store: the transaction is not durable. If cutting it off failed, too, a
  // crash may still bring it back as a whole.
  //
  // Transactions take effect in the order of their appends. A failed one has no effect. A change of
  // a version that does not exist (any more) is ignored.
  //
  // Ownership: the memory of `data` must stay unchanged until the callback.
  //
  // Returns: ok; again: the queue is full, call poll(); invalid: bad sizes, names or checksum
  // kinds; too_big: more changes or longer names than types.hpp allows, or more than size_max
  // bytes; exists: the version of a put is in the log.
  status append(const transaction &changes, status_function done);

  // Read bytes of a durable object in a log with data. `done` is called exactly once if this
  // returns ok, with ok, corrupt (the file is too short) or the store's status. The caller compares
  // the checksum, which covers the whole object. Ownership: the buffers must stay valid until the
  // callback. Returns: ok; no_entry: no such durable object, or it has no data in the log; range:
  // the range exceeds the object.
  status read(uint64_t version,
              uint64_t offset,
              std::vector<seams::store_buffer> buffers,
              status_function done);

  // Read a range of a log file, such as that of several objects by their live_object::offset. As
  // read(). Returns: ok; no_entry: the log has no such file.
  status read_file(uint64_t file_sequence,
                   uint64_t offset,
                   std::vector<seams::store_buffer> buffers,
                   status_function done);

  // Keep the bytes of a durable object for reads. A file with pinned objects that is removed keeps
  // its space until they are unpinned. no_entry: as read().
  result<pinned_object> pin(uint64_t version);
  void unpin(pinned_object &object);
  status read_pinned(const pinned_object &object,
                     uint64_t offset,
                     std::vector<seams::store_buffer> buffers,
                     status_function done);

  // Make progress without blocking. Returns whether anything completed.
  bool poll();

  // When to poll next, a time of the clock. 0: as soon as the store may have completed something.
  // ~0: not before the next append() or read().
  uint64_t next_wake_ns() const;

  // Poll until all callbacks have run, and a record marks all durable records as synced. timed_out:
  // the deadline, a time of the clock, has passed. Failed transactions are not retried; only their
  // callbacks report them.
  status drain(uint64_t deadline_ns);

  // Call `visitor` with each durable object, in no particular order. It must not call append().
  void visit(const std::function<void(const live_object &)> &visitor) const;
  std::optional<live_object> find(uint64_t version) const;  // empty: none
  // Whether the log's files have anything of this version, also if it was removed.
  bool contains(uint64_t version) const;

  // The highest version of all puts in the log's files, including removed objects. The caller's
  // next version must be above it.
  uint64_t highest_version() const;
  // Whether records that were synced were damaged or missing when the log was opened.
  bool has_losses() const;
  const pool_identity &identity() const;
  log_counters counters() const;

 private:
  struct parts;
  explicit durable_log(std::unique_ptr<parts> new_parts);
  std::unique_ptr<parts> parts_;
};

}  // namespace tanada::pool
