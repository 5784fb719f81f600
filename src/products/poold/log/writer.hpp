// products/poold/log/writer.hpp: what the parts of a log share, changes of its files that take
// several operations, and records on their way to the last file.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "products/poold/log/live_set.hpp"
#include "products/poold/log/recovery.hpp"
#include "products/poold/log/reserve.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

// What the parts of a log share. Used by one thread at a time.
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
  std::deque<std::function<void()>> callbacks;  // to be run by poll(), once nothing is half done

  void queue_callback(std::function<void(status)> done, status code);
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

using byte_spans = std::vector<std::span<const std::byte>>;

// A transaction as it is stored, and who waits for it.
struct outgoing_record {
  std::vector<fact> facts;
  byte_spans
      data;  // of the puts, one after the other; each put's is followed by `padding` in the file
  std::function<void(status)> done;
  bool internal = false;             // compaction's: it may use the room kept for that
  bool grows = false;                // it has puts
  uint32_t retry_count = 0;          // writes that failed because the store was full
  uint64_t head_size = 0, size = 0;  // bytes
  record_header header;
  block_buffer head;
};

// too_big.
result<std::unique_ptr<outgoing_record>> make_record(std::vector<fact> facts, bool with_data);

// Groups records: those of a group are written together and share a sync, while the next group is
// being written. When a write or a sync fails, all groups fail: what they may have left is cut off
// behind the last record that was synced, their callers are told, and another file is begun, since
// a file whose sync has failed cannot be trusted to say so again.
class writer {
 public:
  writer(log_state &state, port::clock &clock) : state_{state}, clock_{clock} {}

  void submit(std::unique_ptr<outgoing_record> record);
  void submit_first(std::unique_ptr<outgoing_record> record);

  // `may_wait`: whether compaction will make room.
  void advance(const std::function<bool()> &may_wait);

  bool idle() const noexcept {
    return queue_.empty() && groups_.empty() && !failed_ && head_state_ != head::opening;
  }
  bool short_of_room() const noexcept {
    return short_of_room_;
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
  enum class head { none, opening, ready };
  struct group {
    std::shared_ptr<log_file> file;
    std::vector<std::unique_ptr<outgoing_record>> records;
    uint32_t writes_left = 0;
    bool syncing = false, synced = false;
  };

  void form(const std::function<bool()> &may_wait);
  bool has_room(const outgoing_record &record, const std::function<bool()> &may_wait);
  bool wait_or_refuse(const std::function<bool()> &may_wait);
  bool fits_head(const outgoing_record &record) const;
  bool leaves_room(const outgoing_record &record) const;
  bool may_retry(outgoing_record &record, status code) const;
  void queue_first(std::deque<std::unique_ptr<outgoing_record>> records);
  void place(group &target, std::unique_ptr<outgoing_record> record);
  void write(const std::shared_ptr<group> &target);
  void write_part(const std::shared_ptr<group> &target, uint64_t offset,
                  std::vector<port::store_buffer> buffers);
  void sync(const std::shared_ptr<group> &target);
  void acknowledge();
  void finish(const group &target);

  void open_head();
  void head_opened(const std::shared_ptr<log_file> &file);
  void head_failed(const std::shared_ptr<log_file> &file, status code);

  void fail_all(status code, const log_file &file, const char *what);
  void clean_up();
  void clean_file(const std::shared_ptr<log_file> &file);
  void tell_failure();

  log_state &state_;
  port::clock &clock_;
  std::deque<std::unique_ptr<outgoing_record>> queue_;
  uint64_t queue_size_ = 0;
  std::deque<std::shared_ptr<group>> groups_;
  std::shared_ptr<log_file> head_;  // with a place for the next record at head_offset_
  head head_state_ = head::none;
  uint64_t head_offset_ = 0, last_durable_ns_ = 0, sync_count_ = 0;
  bool short_of_room_ = false;

  bool failed_ = false, cleaning_ = false;
  status failure_ = status::ok;
  uint32_t operations_left_ = 0;  // of groups, the head and cleaning
};

}  // namespace tanada::pool
