// products/gfile/host/core.hpp: the host's half of gfile as one state machine: files, the host
// tier, write-back.
//
// It blocks on nothing and knows no threads: the engine calls it under one lock with what kernels
// ask and what stores complete, and posts what it leaves in the outbox. Simulations drive it the
// same way in one thread.
//
// paths.cc: which way a file's bytes take; core.cc: requests, grants and completions; pages.cc:
// bringing pages in; write_back.cc: taking them out; files.cc: the records of files, unlink,
// shutdown; serial.cc: open, close, sync, truncate; small_files.cc: files whose bytes come with
// their open, and posted closes; stalls.cc: requests that no kernel waits for any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/registry/store_registry.hpp"
#include "core/base/log_limit.hpp"
#include "products/gfile/host/frame_set.hpp"
#include "products/gfile/host/mapper.hpp"
#include "products/gfile/host/range_set.hpp"
#include "products/gfile/host/record.hpp"
#include "rpc/server.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::gfile {

struct core_options {
  uint32_t page_size = 0;  // bytes
  uint32_t page_shift = 0;
  uint32_t file_count_max = 0;
  uint64_t read_timeout_ns =
      ~uint64_t{0};  // a store that takes longer to give bytes or a size has failed
  uint64_t write_delay_ns = 2'000'000;  // a dirty page rests this long before it is written back
  uint32_t run_size_max = 4u << 20;     // bytes a store operation moves at most
  uint32_t readahead_size_max = 16u << 20;
  port::direct_kind direct_min =
      port::direct_kind::direct;  // how good a store's own way to the device must be
  // A record goes to another URL. Uses are counted; kernels have not used the record since the use
  // `closed`.
  std::function<void(uint32_t file, uint64_t closed, uint64_t now)> on_recycled;
  bool maps_at_once = true;  // false: to map a file costs more than to read it once; it is mapped
                             // when it is read again
  unsent_closes *unsent = nullptr;     // that kernels count, one a file; null: nobody does
  const close_list *closes = nullptr;  // that kernels post; null: nobody does
  uint32_t open_read_size_max = 0;     // bytes of a file that come with its open at most
};

// Where pages are put for kernels: in host memory, and in device memory by stores that can. The
// window may be empty.
struct core_frames {
  frame_set host, window;
};

// What core::describe() says of a file.
struct file_description {
  uint32_t file, path, opens, write_opens;
  uint64_t size;
  std::string url, reason;
};

// What core::unwritten() says of a file.
struct unwritten_file {
  std::string url;
  uint64_t page_count;  // pages with bytes that the store does not have; 0: it is only open
};

struct core_statistics {
  uint64_t store_reads = 0, store_read_size = 0, store_writes = 0, store_write_size = 0;
  uint64_t requests = 0, evictions = 0, write_errors = 0;
};

// A piece of a write-back: bytes of one frame.
struct segment {
  uint32_t frame;
  byte_range range;
};

// One operation at a store, from the outbox until its completion.
struct operation {
  enum class kind { load, open, stat, close, read, fill, write, sync, truncate, unlink };
  kind what = kind::read;
  uint32_t file = 0;
  uint64_t first_page = 0;                       // read
  uint64_t store_size = 0;                       // bytes that the store had when this was made
  std::vector<uint32_t> frames;                  // read: loading, one a page; fill: the one
  std::vector<segment> segments;                 // write
  std::unique_ptr<std::byte[]> bounce;           // fill
  pending asked;                                 // load: what waits for the store to be opened
  store_handle *handle = nullptr;                // in use until the completion
  std::optional<port::file_access> access = {};  // open: of the file, as the engine has found it
  port::store *where = nullptr;
  port::trace::operation_mark traced;
  port::store_op body;
  port::store_completion result;  // the engine's, until the core has it

  uint64_t size() const {  // bytes, as far as they are known
    uint64_t sum = 0;
    if (what == kind::open)
      return sum;
    for (auto const &buffer : body.buffers)
      sum += buffer.size;
    return sum;
  }
};

class core final : public rpc::server::handler {
 public:
  // `maps`: who makes mapped files readable for kernels; null: nobody.
  core(const core_options &options, rpc::server &server, const core_frames &frames,
       port::store_registry &stores, port::clock &clock, mapper *maps);
  ~core();

  void on_request(u32 slot, const rpc::request &asked, std::string_view text) override;
  void on_finished(u32 slot, bool canceled) override;
  void on_completion(std::unique_ptr<operation> done, port::store_completion &&result);

  // Take the closes that kernels have posted. False of has_closes(): there is none to take.
  bool has_closes() const;
  void take_closes();
  // Posted closes that are taken and not done.
  uint64_t closing_count() const {
    return closing_count_;
  }

  // Retry what waits for frames and start the write-backs that are due.
  void tick();

  // Hand over what is to be posted to the stores, in order.
  template <class Taker>
  void empty_outbox(Taker take) {
    for (auto &made : outbox_)
      take(std::move(made));
    outbox_.clear();
  }

  // Write back and close every file: call again and again until idle().
  void start_shutdown();
  // Nothing dirty, nothing asked, nothing at a store; after start_shutdown(), nothing open.
  bool idle() const;
  // The first write-back error that nobody has been told of, once.
  status take_error();
  const core_statistics &statistics() const {
    return statistics_;
  }
  // The files that are open or remembered.
  std::vector<file_description> describe() const;
  // Files from this number on have never been in use.
  uint32_t file_used_count() const {
    return uint32_t(files_.size());
  }
  // Files that are open to write or hold bytes that their store does not have.
  std::vector<unwritten_file> unwritten() const;
  // A mapper has done what it was asked for; false: it is not wanted any more, and stays the
  // mapper's.
  bool on_mapped(const map_request &asked, const map_outcome &made);
  // A mapping is lost, since others cut the file or open it to write.
  void on_mapping_lost(const map_request &asked, u32 slot);

 private:
  struct waiter {
    u32 slot;
    bool writes;
    byte_range range;
  };
  // A slot's place among the waiters of a frame, a list through the slots: no memory is asked for
  // on the way of a page.
  struct wait {
    uint32_t frame = tier::no_frame;  // no_frame: it waits at none
    u32 next = rpc::no_slot;
    bool writes = false;
    byte_range range{0, 0};
  };
  struct frame_info {
    uint32_t file = 0;
    uint64_t page = 0;
    bool whole = false;    // every byte is valid
    bool filling = false;  // the rest of a partial page is being read, or waits to be merged
    bool write_failed = false;
    bool has_tail = false;          // behind valid_size, the file's end, lie bytes of other files
    uint32_t valid_size = 0;        // bytes that the store had of a page that was read
    uint32_t write_pins = 0;        // write grants
    uint32_t writes_in_flight = 0;  // write-backs
    uint64_t dirty_since_ns = 0;
    range_set dirty;
    std::unique_ptr<std::byte[]> fill;  // read, not merged yet
    u32 first_waiter = rpc::no_slot, last_waiter = rpc::no_slot;
  };
  // What an answer lent to the kernel that waits at a slot.
  struct grant {
    enum class kind { none, read, write, open, error };
    kind what = kind::none;
    uint32_t frame = tier::no_frame;  // read, write: pinned
    byte_range range{0, 0};           // write
    uint32_t file = 0;                // open: closed again if the kernel did not wait for it
    u64 flags = 0;
    status code = status::ok;  // error: kept for somebody else if the kernel did not wait for it
  };

  // core.cc
  void answer(u32 slot, status code, std::initializer_list<u64> words = {}, u32 value = 0);
  void dispatch(pending asked);
  record *open_record(u32 index);
  u64 changes(const record &file, bool ends_serial) const;
  void post(std::unique_ptr<operation> made);
  std::unique_ptr<operation> make(operation::kind what, record &file);
  void recycle(std::unique_ptr<operation> done);
  frame_set &set_of(uint32_t frame) {
    return frames_.host.owns(frame) ? frames_.host : frames_.window;
  }
  const frame_set &set_of(uint32_t frame) const {
    return frames_.host.owns(frame) ? frames_.host : frames_.window;
  }
  // Where the file's pages are read to.
  frame_set &set_for(const record &file) {
    return file.direct ? frames_.window : frames_.host;
  }

  // paths.cc
  void choose_path(record &file);
  bool can_be_direct(const record &file) const;
  void leave_path(record &file);
  void ask_for_mapping(record &file);
  bool maps_now(const record &file) const;
  void drop_mapping(record &file);
  bool make_room_for_mapping();

  // stalls.cc
  void drop_canceled();
  void drop_canceled_waiters();
  void drop_canceled_serial(record &file);
  void take_unsent_closes(record &file);

  // pages.cc
  uint32_t locate(const record &file, uint64_t page);
  bool may_hold(const record &file, const frame_set &frames, uint64_t key) const;
  void hold(record &file);
  void let_go(record &file);
  uint32_t take_frame(record &file, frame_set &frames, uint64_t page);
  void wait_at(uint32_t frame, const waiter &who);
  bool read_page(const pending &asked);
  void prefetch(record &file, uint64_t page, uint64_t count);
  uint32_t start_read(record &file, uint64_t page, uint64_t count);
  void read_ahead(record &file, uint64_t page, uint32_t got);
  struct missing_bytes {
    uint64_t size, offset, expected_size;  // bytes: that came, where, that should have come
  };
  void log_cut(record &file, const missing_bytes &missing);
  void on_read(operation &done, const port::store_completion &result);
  void grant_read(uint32_t frame, u32 slot, bool at_once);
  bool write_page(const pending &asked);
  void zero_tail(record &file, uint64_t page);
  void grant_write(uint32_t frame, const waiter &who);
  void start_fill(uint32_t frame);
  void on_fill(operation &done, const port::store_completion &result);
  void merge_fill(uint32_t frame);
  void serve_waiters(uint32_t frame, status code);
  uint64_t bytes_expected(const operation &done, uint64_t offset, uint64_t size) const;

  // small_files.cc
  void request_after_closes(pending asked);
  void retry_early();
  void drop_early();
  void make_room_for_bytes(record &file, operation &made);
  void place_bytes(const operation &done, const port::store_completion &result);

  // write_back.cc
  void finish_write(uint32_t frame, byte_range range, bool canceled);
  uint32_t start_write_back(record &file, uint64_t page, uint32_t pages_max);
  bool may_write_back(uint32_t frame) const;
  void on_write(operation &done, const port::store_completion &result);
  void settle(uint32_t frame);
  void drop(uint32_t frame);
  void flush_due();

  // files.cc
  void request_by_url(pending asked);
  void load_store(pending asked);
  record *record_for(std::string &url);
  record *take_record();
  bool is_idle(const record &file) const;
  void keep_idle(record &file);
  void clear(record &file);
  void wait_for_name(pending asked);
  void retry_names();
  void drop_names();
  bool flushed(record &file);
  void finish_serial(record &file, status code, std::initializer_list<u64> words = {},
                     u32 value = 0);
  void advance_unlink(record &file);
  void unlinked(record &file);
  void forget(record &file);
  status take_error(record &file);
  bool renew_key(record &file);

  // serial.cc
  void run_serial(record &file, pending asked);
  void advance(record &file);
  void advance_open(record &file);
  void advance_close(record &file);
  void advance_sync(record &file);
  void advance_truncate(record &file);
  void on_open(operation &done, port::store_completion &result);
  void opened(operation &done, const port::store_completion &result);
  bool opening_waits(record &file);
  void on_serial_done(operation &done, port::store_completion &result);
  void post_open(record &file, const port::store_open_flags &flags);
  void look_again(record &file, const port::store_stat &now);
  void retire(record &file);
  void close_if_unused(record &file);

  core_options options_;
  rpc::server &server_;
  core_frames frames_;
  port::store_registry &stores_;
  port::clock &clock_;
  mapper *maps_;

  std::deque<record> files_;  // that were ever in use: file_count_max at most
  std::unordered_map<std::string_view, uint32_t> by_url_;  // keys are the records' own
  uint32_t open_count_ = 0;                                // files open at their stores
  std::vector<uint32_t> unused_;                           // records that stand for no URL any more
  std::deque<std::pair<uint32_t, uint64_t>>
      closed_;                 // remembered ones and their last_use, oldest first; some are stale
  std::deque<pending> names_;  // wait for a record, or until the system has a descriptor
  std::deque<pending> early_;  // opens and unlinks before posted closes
  uint64_t closes_taken_ = 0;  // tickets of the close list
  uint64_t closing_count_ = 0;
  size_t retry_count_ = 0;  // so many of them may succeed now
  std::vector<frame_info> infos_;
  std::vector<grant> grants_;                         // by slot
  std::vector<wait> waits_;                           // by slot
  std::unordered_map<port::store *, uint32_t> held_;  // frames, see record::held_by_store
  std::deque<pending> deferred_;                      // wait for a frame
  std::deque<uint32_t> dirty_frames_;  // oldest first; may hold frames that are clean by now
  std::vector<std::unique_ptr<operation>> outbox_;
  std::vector<std::unique_ptr<operation>>
      spare_;               // done ones, with the memory that their vectors have
  uint64_t at_stores_ = 0;  // operations in the outbox or posted
  uint64_t progress_ = 0,
           retried_ = 0;   // raised when a frame may have come free; its value at the last retry
  bool pressure_ = false;  // somebody waits for a frame: write back at once
  std::atomic<bool> shutting_down_ = false;  // the engine looks for closes without the lock
  uint32_t next_key_ = 1;
  uint64_t uses_ = 0;
  u32 changes_seen_ = 0;              // see changes_word()
  u32 changes_loading_ = 0;           // of those, wait for their store to be opened
  uint64_t now_ns_ = 0;               // at the last tick
  uint64_t swept_ns_ = 0;             // when canceled requests were looked for last
  status orphan_error_ = status::ok;  // of files that are forgotten
  core_statistics statistics_;
  log_limit cut_lines_;  // of files that others have cut
};

}  // namespace tanada::gfile
