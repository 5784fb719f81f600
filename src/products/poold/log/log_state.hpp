// products/poold/log/log_state.hpp: what the parts of a log share, and the changes of files that
// take several operations.
#pragma once

#include <functional>
#include <memory>

#include "products/poold/log/live_set.hpp"
#include "products/poold/log/recovery.hpp"
#include "products/poold/log/reserve.hpp"

namespace tanada::pool {

// Used by one thread at a time.
struct log_state {
  log_state(const log_options &options_, store_io &io_, recovered_log recovered);

  const log_options &options;
  store_io &io;
  file_map files;  // with the one that is written to
  live_set live;
  name_index names;
  pool_identity identity;
  uint64_t next_sequence, next_file_sequence;
  uint64_t durable_sequence;   // all records up to it are synced
  uint64_t marked_sequence;    // and a synced record says that, up to this one
  uint64_t content_sequence;   // the last durable record that is not empty
  uint64_t content_count = 0;  // records other than compaction's since the log was opened
  uint64_t stored_size = 0;    // bytes of all files
  uint64_t moved_size = 0;     // bytes that compaction has written
  bool is_full =
      false;  // the store has no room for the reserve: only removals and the like are taken
  uint64_t reserve_retry_ns = 0;  // when the reserve may be acquired, in the clock's time
  std::deque<std::function<void()>>
      finished;  // what callers are to be told, once nothing is half done

  void told(std::function<void(status)> done, status code) {
    finished.push_back([done = std::move(done), code] { done(code); });
  }
};

using file_done = std::function<void(status)>;

// The file's name goes for good. ok where it has none any more.
void remove_file(log_state &state, const std::shared_ptr<log_file> &file, file_done done);
// What lies behind file->size goes for good.
void cut_file(log_state &state, const std::shared_ptr<log_file> &file, file_done done);
// The store has no room: what removals and compaction need is released to them.
void release_reserve(log_state &state);
// Returns whether the log may grow: the reserve is held, or there is none.
bool acquire_reserve(log_state &state, uint64_t now_ns);
// Somebody stopped using an unlinked file's handle.
void close_unused(log_state &state, log_file &file);

}  // namespace tanada::pool
