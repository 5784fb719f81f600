// products/gfile/host/core.hpp: the host's half of gfile as one state machine: files, the host
// tier, write-back.
//
// The core never blocks and is unaware of threads. The engine calls it under one lock, with
// kernels' requests and stores' completions, and posts the operations that the core puts in its
// outbox. Simulations drive it the same way in one thread.
//
// paths.cc: which path a file's bytes take; core.cc: requests, grants and completions; pages.cc:
// reading pages; write_back.cc: write-back; files.cc: the records of files, unlink, shutdown;
// page_lists.cc: lists of pages; serial.cc: open, close, sync, truncate; small_files.cc: files
// whose bytes are read with their open, and posted closes; canceled_requests.cc: canceled requests.
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
      ~uint64_t{0};  // a store that takes longer to return bytes or a size has failed
  uint64_t write_delay_ns = 2'000'000;  // a page stays dirty this long before it is written back
  uint32_t run_size_max = 4u << 20;     // most bytes of one store operation
  uint32_t readahead_size_max = 16u << 20;
  seams::direct_kind direct_min =
      seams::direct_kind::direct;  // the least direct kind of a store's own path to the device that
                                   // is accepted
  // Called when a record is reassigned to another URL. Uses are counted; kernels have not used the
  // record since the use `closed_use`.
  std::function<void(uint32_t file, uint64_t closed_use, uint64_t current_use)> on_recycled;
  bool maps_immediately = true;  // false: mapping a file costs more than reading it once, so it is
                                 // mapped when it is read again
  unsent_closes *unsent = nullptr;     // counted by kernels, one for each file; null: not counted
  const close_list *closes = nullptr;  // posted by kernels; null: none are posted
  uint32_t open_read_size_max = 0;     // at most this many bytes of a file are read with its open
  uint8_t *list_areas = nullptr;  // list_area_count areas of list_page_count pages in host memory
  uint32_t list_area_count = 0, list_page_count = 0;
};

// Frames that pages are read into for kernels: in host memory, and in device memory by stores that
// support it. The window may be empty.
struct core_frames {
  frame_set host, window;
};

// The state of a file, from core::describe().
struct file_description {
  uint32_t file, path, opens, write_opens;
  uint64_t size;
  std::string url, reason;
};

// A file with unwritten data, from core::unwritten().
struct unwritten_file {
  std::string url;
  uint64_t page_count;  // pages with bytes that the store does not have; 0: the file is only open
};

struct core_statistics {
  uint64_t store_reads = 0, store_read_size = 0, store_writes = 0, store_write_size = 0;
  uint64_t requests = 0, evictions = 0, write_errors = 0;
};

// A part of a write-back: bytes of one frame.
struct segment {
  uint32_t frame;
  byte_range range;
};

struct operation;

// A page of a list: one read at the store, whose op_id is its address | page_read::mark.
struct page_read {
  static constexpr uint64_t mark = 1;
  operation *list;
  uint32_t position;
};

// A file of a batch of closes. Not done: its store would wait, so it needs an operation of its own.
struct batched_close {
  uint32_t file;
  store_handle *handle;
  seams::store_file store_file;
  bool is_done;
  status code;
};

// One operation at a store, from the outbox until its completion.
struct operation {
  enum class kind {
    load,
    open,
    stat,
    close,
    read,
    fill,
    write,
    sync,
    truncate,
    unlink,
    read_list,
    close_batch
  };
  kind type = kind::read;
  uint32_t file = 0;
  uint64_t first_page = 0;              // read
  uint64_t store_size = 0;              // the store's size of the file when the operation was made
  std::vector<uint32_t> frames;         // read: loading, one for each page; fill: the only one
  std::vector<segment> segments;        // write
  std::unique_ptr<std::byte[]> bounce;  // fill
  pending request;  // load: the request that waits for the store to be opened; read_list
  std::vector<page_read> pages;          // read_list
  std::vector<seams::store_read> reads;  // read_list: one for each of `pages`
  std::vector<batched_close> closes;     // close_batch: files of one store
  uint32_t area = 0;                     // read_list
  size_t posted_count = 0;               // read_list: pages whose reads have begun
  size_t unfinished_count = 0;           // read_list: pages, and one until all reads have begun
  store_handle *handle = nullptr;        // in use until the completion
  std::optional<seams::file_access> access =
      {};  // open: access to the file, as the engine found it
  seams::store *store = nullptr;
  observe::trace::operation_mark traced;
  seams::store_op body;
  seams::store_completion result;  // written by the engine, read by the core

  size_t count() const {  // calls of the store
    return type == kind::close_batch ? closes.size() : 1;
  }

  uint64_t size() const {  // bytes, as far as the sizes are known
    uint64_t sum = 0;
    if (type == kind::open)
      return sum;
    if (type == kind::read_list && !body.buffers.empty())
      return pages.size() * body.buffers[0].size;
    for (auto const &buffer : body.buffers)
      sum += buffer.size;
    return sum;
  }
};

class core final : public rpc::server::handler {
 public:
  // `mapper`: makes mapped files readable for kernels; null: files are not mapped.
  core(const core_options &options,
       rpc::server &server,
       const core_frames &frames,
       backends::store_registry &stores,
       seams::clock &clock,
       mapper *mapper);
  ~core();

  void on_arrival(const rpc::request &received) override;
  void on_request(u32 slot, const rpc::request &received, std::string_view text) override;
  void on_finished(u32 slot, bool canceled) override;
  void on_completion(std::unique_ptr<operation> done, seams::store_completion &&result);

  // Take the closes that kernels have posted. has_closes() returns false if no
  // close is left.
  bool has_closes() const;
  void take_closes();
  // Posted closes that have been taken and are not complete.
  uint64_t closing_count() const {
    return closing_count_;
  }

  // Retry requests that wait for frames, and start the write-backs that are due.
  void tick();

  // Pass the operations to be posted to the stores to `take`, in order.
  template <class Taker>
  void empty_outbox(Taker take) {
    post_closes();
    for (auto &io : outbox_)
      take(std::move(io));
    outbox_.clear();
  }

  // Write back and close every file: call repeatedly until idle().
  void start_shutdown();
  // True if no page is dirty, no request waits and no operation is in flight; after
  // start_shutdown(), also if no file is open.
  bool idle() const;
  // The first write-back error that no call has returned, once.
  status take_error();
  const core_statistics &statistics() const {
    return statistics_;
  }
  // Files that are open or remembered.
  std::vector<file_description> describe() const;
  // Files from this number on were never in use.
  uint32_t file_used_count() const {
    return uint32_t(files_.size());
  }
  // Files that are open for writing, or hold bytes that their store does not have.
  std::vector<unwritten_file> unwritten() const;
  // Called when a mapper has ended a request. Returns false if the mapping is no longer wanted; the
  // mapper then keeps it.
  bool on_mapped(const map_request &request, const map_outcome &outcome);
  // Called when a mapping is lost, because another process truncates the file or opens it for
  // writing.
  void on_mapping_lost(const map_request &request, u32 slot);

 private:
  struct waiter {
    u32 slot;
    bool writes;
    byte_range range;
  };
  // A slot's entry in the list of waiters of a frame. The list runs through the slots, so that a
  // page request allocates no memory.
  struct wait {
    uint32_t frame = tier::no_frame;  // no_frame: not waiting
    u32 next = rpc::no_slot;
    bool writes = false;
    byte_range range{0, 0};
  };
  // One cache line: pages come in any order, so each frame's line comes from memory.
  struct alignas(64) frame_info {
    uint64_t page = 0;
    uint32_t file = 0;
    uint32_t valid_size = 0;  // bytes of a page that the store returned
    u32 first_waiter = rpc::no_slot, last_waiter = rpc::no_slot;
    uint32_t write_pins = 0;        // write grants
    uint32_t writes_in_flight = 0;  // write-backs
    bool whole = false;             // every byte is valid
    bool filling = false;  // the rest of a partial page is being read, or waits to be merged
    bool write_failed = false;
    bool has_tail = false;  // bytes of other files follow valid_size, which is the end of the file
    range_set dirty;
  };
  static_assert(sizeof(frame_info) == 64);
  // What only frames have that kernels write to.
  struct written_frame {
    uint64_t dirty_since_ns = 0;
    std::unique_ptr<std::byte[]> fill;  // read, not merged yet
  };
  // What an answer lent to the kernel that waits at a slot.
  struct grant {
    enum class kind { empty, read, write, open, error, list };
    kind type = kind::empty;
    uint32_t frame = tier::no_frame;  // read, write: pinned; list: the area
    byte_range range{0, 0};           // write
    uint32_t file = 0;  // open: closed again if the kernel did not wait for the answer
    u64 flags = 0;
    status code = status::ok;  // error: kept for a later caller if the kernel did not wait for it
  };

  // core.cc
  void answer(u32 slot, status code, std::initializer_list<u64> words = {}, u32 value = 0);
  void dispatch(pending request);
  void on_loaded(pending request, status code);
  void end_operation(record &file, operation &done, const seams::store_completion &result);
  record *open_record(u32 index);
  u64 changes(const record &file, bool ends_serial) const;
  void post(std::unique_ptr<operation> io);
  std::unique_ptr<operation> make(operation::kind op_kind, record &file);
  static void clear_rare(operation &done);
  void recycle(std::unique_ptr<operation> done);
  frame_set &set_of(uint32_t frame) {
    return frames_.host.owns(frame) ? frames_.host : frames_.window;
  }
  const frame_set &set_of(uint32_t frame) const {
    return frames_.host.owns(frame) ? frames_.host : frames_.window;
  }
  // The frames that the file's pages are read into.
  frame_set &set_for(const record &file) {
    return file.direct ? frames_.window : frames_.host;
  }

  // paths.cc
  void choose_path(record &file);
  bool can_be_direct(const record &file) const;
  void abandon_path(record &file);
  void request_mapping(record &file);
  bool should_map(const record &file) const;
  void drop_mapping(record &file);
  bool drop_idle_mappings();

  // canceled_requests.cc
  void drop_canceled();
  void drop_canceled_waiters();
  void drop_canceled_serial(record &file);
  void take_unsent_closes(record &file);

  // pages.cc
  uint32_t locate(const record &file, uint64_t page);
  bool may_hold(const record &file, const frame_set &frames, uint64_t key) const;
  void hold_frame(record &file);
  void unhold_frame(record &file);
  uint32_t take_frame(record &file, frame_set &frames, uint64_t page);
  void add_waiter(uint32_t frame, const waiter &kernel);
  bool read_page(const pending &request);
  void prefetch(record &file, uint64_t page, uint64_t count);
  uint32_t start_read(record &file, uint64_t page, uint64_t count);
  void add_frames(operation &io, record &file, uint64_t page, uint64_t count);
  void count_loaded(record &file, uint32_t page_count);
  void read_ahead(record &file, uint64_t page, uint32_t page_count);
  struct missing_bytes {
    uint64_t size, offset, expected_size;  // received bytes, their offset in the file, expected
                                           // bytes
  };
  void log_truncation(record &file, const missing_bytes &missing);
  void on_read(operation &done, const seams::store_completion &result);
  void finish_page(const operation &done, size_t index, const seams::store_completion &result);
  void publish_page(record &file, uint32_t frame, uint64_t offset, uint64_t read_size);
  void grant_read(uint32_t frame, u32 slot, bool at_once);
  bool write_page(const pending &request);
  bool write_new_page(record &file, uint64_t page, const waiter &kernel);
  void zero_tail(record &file, uint64_t page);
  void grant_write(uint32_t frame, const waiter &kernel);
  void start_fill(uint32_t frame);
  void on_fill(operation &done, const seams::store_completion &result);
  void merge_fill(uint32_t frame);
  void serve_waiters(uint32_t frame, status code);
  uint64_t bytes_expected(const operation &done, uint64_t offset, uint64_t size) const;

  // page_lists.cc
  void read_list(pending request);
  status may_read_list(const record &file) const;
  void start_lists();
  void start_file_lists(record &file);
  bool add_list_pages(operation &io, const pending &request) const;
  void start_list(record &file, const pending &request);
  uint64_t valid_list_pages(const operation &done);
  void on_list(operation &done);
  void free_area(uint32_t area);
  void drop_lists(record &file, status code);
  void drop_canceled_lists();

  // small_files.cc
  void request_after_closes(pending request);
  void retry_early();
  void drop_early();
  void batch_close(record &file, store_handle &handle);
  void post_closes();
  void on_closes(operation &done);
  uint32_t opening_count_max() const;
  void end_first_open(store_load &load);
  void reserve_open_frames(record &file, operation &io);
  uint64_t open_page_count(const record &file) const;
  void publish_open_page(record &file, uint32_t frame, uint64_t begin, uint64_t file_size);
  void publish_open_bytes(const operation &done, const seams::store_completion &result);

  // write_back.cc
  void finish_write(uint32_t frame, byte_range range, bool canceled);
  // A write-back that grows by contiguous ranges.
  struct write_run {
    std::unique_ptr<operation> io;
    uint64_t size = 0;  // bytes
  };
  void start_write_back(record &file, uint64_t page, uint32_t pages_max);
  void add_range(write_run &run, record &file, uint32_t frame, byte_range range);
  void post_run(write_run &run);
  bool may_write_back(uint32_t frame) const;
  void on_write(operation &done, const seams::store_completion &result);
  void check_clean(uint32_t frame);
  void discard_frame(uint32_t frame);
  void flush_due();

  // files.cc
  void request_by_url(pending request);
  void load_store(pending request);
  record *make_record(std::string &url);
  record *take_record();
  bool is_idle(const record &file) const;
  void keep_idle(record &file);
  bool try_remember(record &file);
  void clear(record &file);
  void defer_named_request(pending request);
  void retry_named_requests();
  void drop_named_requests();
  bool try_flush(record &file);
  void finish_serial(record &file,
                     status code,
                     std::initializer_list<u64> words = {},
                     u32 value = 0);
  struct serial_answer {
    status code;
    std::initializer_list<u64> words;
    u32 value;
  };
  void answer_serial(const record &file, const pending &request, const serial_answer &reply);
  void advance_unlink(record &file);
  void on_unlinked(record &file);
  void forget(record &file);
  status unreturned_failure(record &file);
  status failure_for(record &file, const pending &request);
  bool renew_key(record &file);

  // serial.cc
  void run_serial(record &file, pending request);
  void advance(record &file);
  std::unique_ptr<operation> make_serial(operation::kind op_kind,
                                         seams::store_op_kind body_kind,
                                         record &file);
  void post_serial(record &file, std::unique_ptr<operation> io);
  void post_open(record &file, const seams::store_open_flags &flags);
  void post_first_open(record &file, const seams::store_open_flags &flags);
  void post_truncate(record &file, uint64_t size);
  void advance_open(record &file);
  bool begin_open(record &file, const seams::store_open_flags &wanted);
  void fail_open(record &file);
  void advance_close(record &file);
  bool begin_close(record &file);
  bool closes_writer(const record &file) const;
  void end_close(record &file);
  void advance_sync(record &file);
  void advance_truncate(record &file);
  void on_open(operation &done, const seams::store_completion &result);
  void finish_open(operation &done, const seams::store_completion &result);
  bool try_defer_open(record &file);
  void begin_view(record &file, const seams::store_stat &store_stat);
  void record_stat(record &file, const seams::store_stat &store_stat);
  void revalidate(record &file, const seams::store_stat &store_stat);
  void on_closed(record &file, store_handle &handle, status code);
  void on_serial_done(operation &done, const seams::store_completion &result);
  void retire(record &file);
  void close_if_unused(record &file);
  void post_close(record &file, store_handle &handle);

  core_options options_;
  rpc::server &server_;
  core_frames frames_;
  backends::store_registry &stores_;
  seams::clock &clock_;
  mapper *mapper_;

  std::deque<record> files_;  // files that were ever in use: at most file_count_max
  std::unordered_map<std::string_view, uint32_t> by_url_;  // keys point into the records
  uint32_t open_count_ = 0;                                // files open at their stores
  std::vector<uint32_t> unused_;                           // records without a URL
  std::deque<std::pair<uint32_t, uint64_t>>
      remembered_;  // remembered files and their last_use, oldest first; some entries are stale
  std::deque<pending> named_requests_;  // opens and unlinks that wait for a record or for a
                                        // descriptor of the system
  std::deque<pending> early_requests_;  // opens and unlinks that wait for posted closes
  uint64_t closes_taken_ = 0;           // tickets of the close list that were taken
  uint64_t closing_count_ = 0;
  size_t retry_count_ = 0;  // how many of the named requests may succeed now
  std::vector<frame_info> frame_infos_;
  std::vector<written_frame> written_frames_;
  std::vector<grant> grants_;                 // by slot
  std::vector<wait> waits_;                   // by slot
  std::vector<operation *> list_operations_;  // by slot; null: no list is being read for it
  std::vector<uint32_t> free_areas_;
  std::deque<uint32_t> list_files_;  // files whose lists wait for an area
  std::unordered_map<seams::store *, store_load> loads_;
  std::deque<pending> deferred_;       // requests that wait for a frame
  std::deque<uint32_t> dirty_frames_;  // oldest first; may contain frames that are clean by now
  std::vector<std::unique_ptr<operation>> outbox_;
  std::unique_ptr<operation> closing_;  // a batch of closes that goes to the outbox next
  std::vector<std::unique_ptr<operation>>
      spare_operations_;          // completed operations, reused with the memory of their vectors
  uint64_t in_flight_count_ = 0;  // operations in the outbox or posted
  uint64_t progress_ = 0,
           retried_progress_ =
               0;          // raised when a frame may have come free; its value at the last retry
  bool pressure_ = false;  // a request waits for a frame: write back at once
  std::atomic<bool> shutting_down_ = false;  // the engine checks for closes without the lock
  uint32_t next_key_ = 1;
  uint64_t uses_ = 0;
  u32 changes_seen_ = 0;              // see changes_word()
  u32 changes_loading_ = 0;           // changes that wait for their store to be opened
  uint64_t now_ns_ = 0;               // at the last tick
  uint64_t last_sweep_ns_ = 0;        // when canceled requests were last searched for
  status orphan_error_ = status::ok;  // of forgotten files
  core_statistics statistics_;
  log_limit truncation_log_limit_;  // of files that other processes have truncated
};

}  // namespace tanada::gfile
