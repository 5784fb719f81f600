// products/poold/log/log.hpp: what makes the commits of a pool durable.
#pragma once

#include <memory>

#include "core/base/result.hpp"
#include "products/poold/log/types.hpp"
#include "seams/clock/clock.hpp"
#include "seams/store/store.hpp"

namespace tanada::pool {

struct log_counters {
  uint64_t stored_size = 0;  // bytes of all files
  uint64_t file_count = 0, object_count = 0;
  uint64_t moved_size = 0;  // bytes that compaction has written since the log was opened
  uint64_t sync_count = 0;  // of groups, since the log was opened
  uint64_t waiting_count = 0,
           waiting_size = 0;  // transactions that no group has taken yet, and their bytes
};

// Transactions in log files of a folder, which belongs to one log at a time: whoever opens it sees
// to that. With data (flash) a record holds the objects' bytes; a journal holds where in a backing
// file they lie, and whoever appends syncs them there before.
//
// Nothing happens but in poll(): used by one thread at a time, and callbacks come from poll and
// drain. Callbacks may call append and read.
class durable_log {
 public:
  using status_function = std::function<void(status)>;

  // Recovers what the folder holds, see recovery.hpp; it takes reading all metadata. The store and
  // the clock outlive the log.
  static result<std::unique_ptr<durable_log>> open(port::store &store, port::clock &clock,
                                                   log_options options);

  // What has been appended and not called back may be durable or not. The store's operations end
  // before this does, and no callback comes. With operations on their way, files stay open in the
  // store: drain first.
  ~durable_log();

  // Make a transaction durable. `done` is called once when this returns ok, and never else:
  // - ok: it is durable, and so are all that were appended before.
  // - no_space: no room, in the store or below size_max. Removing objects and, later, compaction
  // make some. With
  //   options.reserve a full store takes transactions without a put, from the reserve, and refuses
  //   puts until the reserve could be acquired again.
  // - others: the store's. It is not durable; where cutting it off failed, too, a crash may still
  // bring it back as a whole. Transactions count in the order of their appends; a failed one counts
  // as never made. What a change names by version and is not there (any more) is passed over.
  // Ownership: what `data` points to stays as it is until the callback.
  // Returns: ok; again: the queue is full, poll; invalid: sizes, names or checksum kinds that
  // cannot be; too_big: more changes, longer names than types.hpp allows, or bigger than size_max;
  // exists: the version of a put is in the log.
  status append(const transaction &changes, status_function done);

  // Bytes of a durable object in a log with data. `done` is called once when this returns ok: ok,
  // corrupt when the file is too short, or the store's. The checksum is of the whole object:
  // whoever reads all of it compares. Ownership: the buffers stay until the callback. Returns: ok;
  // no_entry: no such durable object, or not in a log with data; range: more than the object has.
  status read(uint64_t version, uint64_t offset, std::vector<port::store_buffer> buffers,
              status_function done);

  // Do what can be done without waiting. Returns whether anything was completed.
  bool poll();

  // When to poll next, in the clock's time: 0 as soon as the store may have completed something, ~0
  // when nothing is to do before the next append or read.
  uint64_t next_wake_ns() const;

  // Poll until all appended is called back and the log says so itself, or the deadline, in the
  // clock's time, has passed: timed_out. What failed is not repeated: its callback has told.
  status drain(uint64_t deadline_ns);

  // Each durable object, in no order. The visitor must not append.
  void visit(const std::function<void(const live_object &)> &visitor) const;
  const live_object *find(uint64_t version) const;  // null: none; good until the next poll

  // Of all puts in the log, removed objects' too, as long as their records are there. The caller's
  // next version is above it.
  uint64_t highest_version() const;
  const pool_identity &identity() const;
  log_counters counters() const;

 private:
  struct parts;
  explicit durable_log(std::unique_ptr<parts> made);
  std::unique_ptr<parts> parts_;
};

}  // namespace tanada::pool
