// products/gfile/host/record.hpp: what the host knows of a file: one record a URL that is open or
// remembered.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "seams/store/store.hpp"
#include <tanada/device/detail/gfile/state.hpp>

namespace tanada::gfile {

// A request that could not be answered at once.
struct pending {
  u32 slot = rpc::no_slot;  // no_slot: nobody waits for the answer
  op what = op::read;
  u32 file = 0;
  u64 words[3] = {0, 0, 0};
  std::string url;
  uint64_t since_ns = 0;   // open, unlink: when it began to wait for a close, record or descriptor
  bool is_posted = false;  // a close of the close list
};

// See changes_word().
inline bool is_change(const pending &asked) {
  u64 const flags = asked.words[0];
  bool const truncates = (flags & O_TRUNC) != 0 && (flags & O_ACCMODE) != O_RDONLY;
  return asked.what == op::truncate || asked.what == op::unlink ||
         (asked.what == op::open && truncates);
}

// A file open at its store. Retired handles are closed when their last operation is done.
struct store_handle {
  port::store_file file = port::no_store_file;
  bool writable = false;
  uint32_t uses = 0;  // operations in flight
};

// Operations on one file that must not overlap: open, close, sync, truncate run one after the
// other.
struct serial_operation {
  enum class stage { flush, retire, act, reopen };
  pending asked;
  stage now = stage::flush;
  bool waiting = false;      // for an operation of this stage at the store
  status code = status::ok;  // the answer so far
  bool has_new_key = false;  // open: the file has got a key that no page was ever cached under
};

// A run of sequential misses.
struct stream {
  uint64_t next_page = ~uint64_t{0};
  uint32_t window = 0;  // pages to read ahead at the next miss
};

struct record {
  enum class state { unused, opening, open, remembered };

  uint32_t index = 0;
  state now = state::unused;
  std::string url;
  port::store *where = nullptr;
  uint32_t held = 0;  // frames that `where` has yet to fill or to take for this file
  uint32_t *held_by_store = nullptr;  // and for all its files
  std::unique_ptr<store_handle> handle;
  std::vector<std::unique_ptr<store_handle>> retired;

  uint32_t epoch = 0;  // raised whenever kernels must take key and size anew
  uint32_t key = 0;
  uint64_t size = 0;        // bytes, with what kernels wrote
  uint64_t store_size = 0;  // bytes that the store has
  uint64_t cut_to = ~uint64_t{
      0};  // a truncate to so many bytes is at the store, or came to nobody knows what end
  uint64_t version = 0;       // the store's, when we last agreed with it
  bool version_good = false;  // cached pages may be kept while `version` stays

  port::file_access access;  // of `handle`
  bool direct = false;       // pages are read to the direct window
  uint32_t mapping = 0;      // slot of the mapper, for `key`; 0: none
  bool mapping_asked = false;
  bool was_closed = false;    // and is open again: it is read again
  bool cut_logged = false;    // bytes were missing, for `key`
  uint64_t loaded_pages = 0;  // from the store, for `key`
  // The key has changed since the first open: a kernel may still read with an earlier size, which
  // is larger, what it is lent under this key.
  bool has_earlier_views = false;
  std::string mapping_refusal;

  uint32_t opens = 0, write_opens = 0;
  unsent_closes unsent{0};  // that are taken, of this number's files so far
  bool unlinked = false;
  status error = status::ok;  // first write-back error that nobody has been told of
  uint64_t last_use = 0;      // the core's count of uses at the last open
  uint64_t closed_use = 0;    // and when it was closed last

  std::map<uint64_t, uint32_t>
      dirty;  // page -> frame: has dirty ranges, a write grant or a write-back in flight
  uint32_t write_grants = 0;
  std::optional<serial_operation> serial;
  std::list<pending> queue;        // serial operations to come
  std::list<pending> held_writes;  // while a serial operation flushes
  stream streams[8];
  uint32_t next_stream = 0;
};

}  // namespace tanada::gfile
