// products/gfile/host/record.hpp: the host's state of a file: one record for each URL that is open
// or remembered.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "seams/store/store.hpp"
#include <tanada/device/detail/gfile/state.hpp>

namespace tanada::gfile {

// A request that is not answered yet.
struct pending {
  u32 slot = rpc::no_slot;  // no_slot: no kernel waits for the answer
  op operation = op::read;
  u32 file = 0;
  u64 words[3] = {0, 0, 0};
  std::string url;
  uint64_t since_ns = 0;   // open, unlink: when it began to wait for a close, record or descriptor
  bool is_posted = false;  // a close from the close list
  bool was_deferred = false;  // open, unlink: it has waited for a record or for a descriptor
};

// See changes_word().
inline bool is_change(const pending &request) {
  u64 const flags = request.words[0];
  bool const truncates = (flags & O_TRUNC) != 0 && (flags & O_ACCMODE) != O_RDONLY;
  return request.operation == op::truncate || request.operation == op::unlink ||
         (request.operation == op::open && truncates);
}

// A file open at its store. Retired handles are closed when their last operation has completed.
struct store_handle {
  seams::store_file file = seams::no_store_file;
  bool writable = false;
  uint32_t uses = 0;  // operations in flight
};

// Operations on one file that must not overlap: open, close, sync and truncate run one after the
// other.
struct serial_operation {
  enum class stage { flush, retire, act, reopen };
  pending request;
  stage phase = stage::flush;
  bool waiting = false;      // for an operation of this stage at the store
  status code = status::ok;  // the answer so far
  bool has_new_key = false;  // open: the file has a new key, under which no page was ever cached
};

// A run of sequential misses.
struct stream {
  uint64_t next_page = ~uint64_t{0};
  uint32_t window = 0;  // pages to read ahead at the next miss
};

// Failures of write-back. A descriptor whose gopen was answered before a failure returns it,
// whoever else has returned it.
struct write_failures {
  uint32_t count = 1;  // and one; neither 0 nor rpc::no_answer, which kernels take for no count
  status latest = status::ok;
  bool is_returned = true;  // the latest, by any call

  void add(status code) {
    if (++count == rpc::no_answer)
      count = 1;
    latest = code;
    is_returned = false;
  }
};

// What the files of a store wait for together.
struct store_load {
  uint32_t held_frames = 0;            // frames that the store has yet to fill or to write back
  uint32_t opening_count = 0;          // first opens for reading that are at the store
  std::deque<uint32_t> waiting_opens;  // files whose open waits until fewer are
};

struct record {
  enum class state { unused, opening, open, remembered };

  uint32_t index = 0;
  state phase = state::unused;
  std::string url;
  seams::store *store = nullptr;
  uint32_t held_frames = 0;    // frames that `store` has yet to fill or to write back for this file
  store_load *load = nullptr;  // that of all files of `store`
  std::unique_ptr<store_handle> handle;
  std::vector<std::unique_ptr<store_handle>> retired;

  uint32_t epoch = 0;  // raised whenever kernels must reload key and size
  uint32_t key = 0;
  uint64_t size = 0;        // bytes, including what kernels wrote
  uint64_t store_size = 0;  // bytes that the store has
  uint64_t truncate_size =
      ~uint64_t{0};      // size of a truncate that is at the store, or whose outcome is unknown
  uint64_t version = 0;  // the store's version when the cached pages last agreed with it
  bool is_version_stable = false;  // cached pages may be kept while `version` stays the same

  seams::file_access access;  // of `handle`
  bool direct = false;        // pages are read into the direct window
  uint32_t mapping = 0;       // the mapper's slot, for `key`; 0: none
  bool mapping_requested = false;
  bool was_closed = false;         // the file was closed before, and is being read again
  bool truncation_logged = false;  // missing bytes were logged, for `key`
  uint64_t loaded_pages = 0;       // from the store, for `key`
  // The key has changed since the first open. A kernel may still use an earlier, larger size to
  // read a frame that is lent to it under this key.
  bool has_earlier_views = false;
  std::string mapping_refusal;

  uint32_t opens = 0, write_opens = 0;
  unsent_closes unsent{0};  // closes already taken, over all files that had this number
  bool unlinked = false;
  write_failures failures;
  uint64_t last_use = 0;    // the core's count of uses at the last open
  uint64_t closed_use = 0;  // the count at the last close

  std::map<uint64_t, uint32_t>
      dirty;  // page -> frame: has dirty ranges, a write grant or a write-back in flight
  uint32_t write_grants = 0;
  std::optional<serial_operation> serial;
  std::list<pending> queue;          // serial operations that wait for their turn
  std::list<pending> held_writes;    // writes that wait while a serial operation flushes
  std::list<pending> waiting_lists;  // lists of pages that wait for an area
  uint32_t list_count = 0;           // areas in use for this file
  stream streams[8];
  uint32_t next_stream = 0;
};

}  // namespace tanada::gfile
