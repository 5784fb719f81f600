// products/poold/log/recovery.hpp: from log files to live objects.
#pragma once

#include "products/poold/log/live_set.hpp"
#include "products/poold/log/log_file.hpp"
#include "products/poold/log/store_io.hpp"

namespace tanada::pool {

struct recovered_log {
  file_map files;
  live_set live;
  name_index names;
  pool_identity identity{};
  uint64_t next_sequence = 1, next_file_sequence = 1;
  uint64_t durable_sequence = 0;  // that some record tells
  uint64_t content_sequence = 0;  // of the last record that is not empty
};

// Reads all files. The log ends before the first record that is missing or torn among those that
// nobody says were synced: the rest is cut off, on the store too, with one line. A damaged record
// before that is left out, with one line; its transaction is lost, and what it removed or
// superseded may be back. Everything that counts is synced.
//
// Returns the store's status when it fails (nothing is cut on the word of a store that does not
// answer), invalid when files of another pool are there, or of a journal where a log with data is
// expected, or the other way round.
status recover(store_io &io, const log_options &options, recovered_log &recovered);

}  // namespace tanada::pool
