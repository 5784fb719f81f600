// products/poold/log/recovery.hpp: recovery of live objects from log files.
#pragma once

#include "products/poold/log/live_set.hpp"
#include "products/poold/log/log_file.hpp"
#include "products/poold/log/store_io.hpp"

namespace tanada::pool {

struct recovered_log {
  file_map files;
  live_set live;
  pool_identity identity{};
  uint64_t next_sequence = 1, next_file_sequence = 1;
  uint64_t durable_sequence = 0;  // the highest durable_sequence of all records
  uint64_t content_sequence = 0;  // of the last record that is not empty
  bool has_losses = false;        // records that were synced are damaged or missing
};

// Reads all files. The log ends before the first missing or torn record that no other record marks
// as synced. The rest is cut off, also in the store, and one line is logged. A damaged record
// before that is skipped, and one line is logged: its transaction is lost, and objects that it
// removed or superseded may reappear. All recovered records are synced.
//
// Returns the store's status if it fails; nothing is cut off after a failed read. invalid: the
// folder has files of another pool or of an unknown format, or a journal instead of a log with
// data, or vice versa.
status recover(store_io &io, const log_options &options, recovered_log &recovered);

}  // namespace tanada::pool
