// products/poold/log/writer.hpp: the shared state of a log's parts, file changes that take several
// operations, and the writing of records to the last file.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "products/poold/log/group_gate.hpp"
#include "products/poold/log/live_set.hpp"
#include "products/poold/log/recovery.hpp"
#include "products/poold/log/reserve.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

// The state that the parts of a log share. Used by one thread at a time.
struct log_state {
  log_state(const log_options &options_, store_io &io_, recovered_log recovered);

  const log_options &options;
  store_io &io;
  file_map files;  // including the one that is written to
  live_set live;
  name_index names{live};
  pool_identity identity;
  uint64_t next_sequence, next_file_sequence;
  uint64_t durable_sequence;   // all records up to this one are synced
  uint64_t marked_sequence;    // and up to this one, a synced record marks them as synced
  uint64_t content_sequence;   // the last durable record with changes
  uint64_t content_count = 0;  // durable records, without compaction's, since the log was opened
  uint64_t stored_size = 0;    // bytes of all files
  uint64_t moved_size = 0;     // bytes written by compaction
  bool is_full = false;  // the reserve does not fit into the store: records with puts are refused
  uint64_t reserve_retry_ns = 0;  // when to try to acquire the reserve, a time of the clock
  std::deque<std::function<void()>> callbacks;  // run at the end of poll(), in a consistent state

  void queue_callback(std::function<void(status)> done, status code);
  void queue_callbacks(std::vector<std::function<void(status)>> done, status code);
};

using file_callback = std::function<void(status)>;

// Unlink the file durably. ok: also if it has no name any more.
void remove_file(log_state &state, const std::shared_ptr<log_file> &file, file_callback done);
// Truncate the file to file->size durably.
void truncate_file(log_state &state, const std::shared_ptr<log_file> &file, file_callback done);
// The store is full: release the reserve for removals and compaction.
void release_reserve(log_state &state);
// Returns whether puts are possible: the reserve is held, or the log has no reserve.
bool acquire_reserve(log_state &state, uint64_t now_ns);
// Close the handle of an unlinked file that no read uses any more.
void close_unused(log_state &state, log_file &file);

using byte_spans = std::vector<std::span<const std::byte>>;

// One or more transactions in their stored form, with their callbacks.
struct outgoing_record {
  std::vector<log_entry> entries;
  byte_spans data;  // of the puts, one after the other; once placed, without those in the head
  std::vector<std::function<void(status)>> callbacks;
  bool is_internal = false;          // written by compaction, which may use the space kept for it
  bool has_puts = false;             // has puts
  uint32_t retry_count = 0;          // writes that failed because the store was full
  uint64_t head_size = 0, size = 0;  // bytes
  uint64_t metadata_size = 0, head_data_size = 0;  // bytes of the head
  record_header header;
  block_buffer head;
};

// too_big: more metadata or changes than types.hpp allows.
result<std::unique_ptr<outgoing_record>> make_record(std::vector<log_entry> entries,
                                                     bool with_data);

// Writes records in groups. Small transactions that wait for the same group share records. The
// records of a group share a sync. A group of many bytes is written while the previous one is
// synced. A smaller one waits for its end, so that more transactions share its sync. If a write or
// a sync fails, all groups fail. The file is cut off after the last synced record, the callbacks
// get the status, and a new file is started. The old file is not used again, because a later sync
// need not report that an earlier one failed.
class writer {
 public:
  writer(log_state &state, seams::clock &clock) : state_{state}, clock_{clock} {}

  void submit(std::unique_ptr<outgoing_record> record);
  void submit_front(std::unique_ptr<outgoing_record> record);

  // `can_free_space` returns whether compaction can free space.
  void advance(const std::function<bool()> &can_free_space);

  bool is_idle() const noexcept {
    return queue_.empty() && groups_.empty() && !has_failed_ && head_state_ != head::opening;
  }
  bool lacks_space() const noexcept {
    return lacks_space_;
  }
  bool writes_to(const log_file &file) const;
  size_t queue_count() const noexcept {
    return queue_.size();
  }
  uint64_t queue_size() const noexcept {
    return queue_size_;
  }
  uint64_t sync_count() const noexcept {
    return sync_count_;
  }
  uint64_t last_durable_ns() const noexcept {
    return last_durable_ns_;
  }

 private:
  enum class head { closed, opening, ready };
  struct group {
    std::shared_ptr<log_file> file;
    std::vector<std::unique_ptr<outgoing_record>> records;
    uint32_t pending_write_count = 0;
    bool is_syncing = false, is_synced = false;
  };

  bool may_form_group();
  void form_group(const std::function<bool()> &can_free_space);
  bool has_space(const outgoing_record &record, const std::function<bool()> &can_free_space);
  bool wait_or_reject(const std::function<bool()> &can_free_space);
  bool fits_head(const outgoing_record &record) const;
  bool leaves_space(const outgoing_record &record) const;
  bool is_within_size_max(const outgoing_record &record, uint64_t size) const;
  uint64_t pack_limit(const outgoing_record &record, uint64_t group_size) const;
  void pack_waiting(outgoing_record &record, uint64_t group_size);
  bool may_retry(outgoing_record &record, status code) const;
  void requeue(std::deque<std::unique_ptr<outgoing_record>> records);
  void place_record(group &target, std::unique_ptr<outgoing_record> record);
  void write(const std::shared_ptr<group> &target);
  void write_part(const std::shared_ptr<group> &target,
                  uint64_t offset,
                  std::vector<seams::store_buffer> buffers);
  void sync(const std::shared_ptr<group> &target);
  void acknowledge();
  void apply_group(const group &target);

  void open_head();
  void on_head_opened(const std::shared_ptr<log_file> &file);
  void on_head_named(const std::shared_ptr<log_file> &file, status code);
  void on_head_failed(const std::shared_ptr<log_file> &file, status code);

  void fail_all(status code, const log_file &file, const char *operation);
  void clean_up();
  void clean_file(const std::shared_ptr<log_file> &file);
  void report_failure();

  log_state &state_;
  seams::clock &clock_;
  std::deque<std::unique_ptr<outgoing_record>> queue_;
  uint64_t queue_size_ = 0;
  std::deque<std::shared_ptr<group>> groups_;
  group_gate gate_;
  std::shared_ptr<log_file> head_;  // the file that takes the next record, at head_offset_
  head head_state_ = head::closed;
  uint64_t head_offset_ = 0, last_durable_ns_ = 0, sync_count_ = 0;
  bool lacks_space_ = false;

  bool has_failed_ = false, is_cleaning_ = false;
  status failure_ = status::ok;
  uint32_t in_flight_count_ = 0;  // in flight: of groups, the head and cleaning
};

}  // namespace tanada::pool
