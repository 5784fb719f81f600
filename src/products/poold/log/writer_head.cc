// The log's files: creation by the writer, handling of failures, removal, and the reserve.
#include <tanada/status.h>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/log/writer.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

using seams::store_op_kind;

static constexpr uint32_t retry_count_max = 2;  // for one record in a full store

// An id that is unlikely to be used by another file of this pool.
static uint64_t draw_file_id(const log_state &state, uint64_t file_sequence, uint64_t now_ns) {
  uint64_t const words[] = {file_sequence, state.next_sequence, now_ns};
  checksum sum{checksum_kind::xxh3};
  sum.add(std::as_bytes(std::span{state.identity}));
  sum.add(std::as_bytes(std::span{words}));
  return sum.value();
}

void writer::open_head() {
  TND_ASSERT(head_state_ == head::closed);
  auto const file = std::make_shared<log_file>();
  uint64_t const file_sequence = state_.next_file_sequence++;
  file->identity = {
      state_.identity, file_sequence, draw_file_id(state_, file_sequence, clock_.now_ns())};
  file->url = file_url(state_.options.url, file_sequence);
  file->first_sequence = state_.next_sequence;
  file->last_sequence = state_.next_sequence - 1;
  file->size = block_size;
  head_state_ = head::opening;
  head_ = file;
  in_flight_count_++;
  auto op = make_url_op(store_op_kind::open,
                        file->url,
                        {.read = true,
                         .write = true,
                         .create = true,
                         .exclusive = true,
                         .direct = state_.options.with_data,
                         .owner_only = true});
  state_.io.post(std::move(op), [this, file](const auto &opened) {
    in_flight_count_--;
    if (opened.code != status::ok)
      return on_head_failed(file, opened.code);
    file->handle = opened.file;
    on_head_opened(file);
  });
}

// Write the header, sync it, and sync the file's name: a record is not durable in a file that a
// crash may remove.
void writer::on_head_opened(const std::shared_ptr<log_file> &file) {
  auto const block = std::make_shared<block_buffer>(block_size);
  encode_file_header({file->identity, file->first_sequence, state_.options.with_data},
                     block->span());
  in_flight_count_++;
  auto const ready = [this, file](const auto &named) {
    on_head_named(file, named.code);
  };
  auto const synced = [this, file, ready](const auto &done) {
    in_flight_count_--;
    if (done.code != status::ok)
      return on_head_failed(file, done.code);
    in_flight_count_++;
    state_.io.post(make_url_op(store_op_kind::sync_names, state_.options.url), ready);
  };
  state_.io.post(
      make_transfer_op(store_op_kind::write, file->handle, 0, {{block->data(), block_size}}),
      [this, file, block, synced](const auto &written) {
        in_flight_count_--;
        if (written.code != status::ok)
          return on_head_failed(file, written.code);
        in_flight_count_++;
        state_.io.post(make_file_op(store_op_kind::sync, file->handle), synced);
      });
}

void writer::on_head_named(const std::shared_ptr<log_file> &file, status code) {
  TND_ASSERT(in_flight_count_ > 0);
  in_flight_count_--;
  if (code != status::ok)
    return on_head_failed(file, code);
  if (has_failed_)
    return;  // an older file failed; clean_up() removes this one, too
  TND_ASSERT(head_state_ == head::opening && head_ == file);
  head_state_ = head::ready;
  head_offset_ = block_size;
  state_.files[file->identity.file_sequence] = file;
  state_.stored_size += block_size;
}

// Fail the queued records, which need the file. Groups in the previous file continue.
void writer::on_head_failed(const std::shared_ptr<log_file> &file, status code) {
  log(log_level::warning,
      "{}: the file cannot be created ({})",
      file->url,
      tnd_status_name(tnd_status(code)));
  head_.reset();
  head_state_ = head::closed;
  if (code != status::exists)
    clean_file(file);  // an existing file belongs to another log
  if (code == status::no_space)
    release_reserve(state_);
  std::deque<std::unique_ptr<outgoing_record>> retried;
  for (auto &record : std::exchange(queue_, {})) {
    if (may_retry(*record, code)) {
      retried.push_back(std::move(record));
    } else {
      state_.queue_callbacks(std::move(record->callbacks), code);
    }
  }
  queue_size_ = 0;
  requeue(std::move(retried));
}

// Whether to retry a record that failed in a full store, in the space that the reserve has
// released.
bool writer::may_retry(outgoing_record &record, status code) const {
  bool const uses_reserve =
      state_.options.reserve != nullptr && !record.has_puts && !record.is_internal;
  return code == status::no_space && uses_reserve && record.retry_count++ < retry_count_max;
}

void writer::requeue(std::deque<std::unique_ptr<outgoing_record>> records) {
  while (!records.empty()) {
    auto &last = records.back();
    for (auto &entry : last->entries)
      entry.superseded_version = 0;  // determined again when the record is placed
    submit_front(std::move(last));
    records.pop_back();
  }
}

void writer::fail_all(status code, const log_file &file, const char *operation) {
  if (has_failed_)
    return;
  has_failed_ = true;
  failure_ = code;
  if (code == status::no_space)
    release_reserve(state_);
  log(log_level::error,
      "{}: {} failed ({}): the file ends at offset {}, another one is created",
      file.url,
      operation,
      tnd_status_name(tnd_status(code)),
      file.size);
}

// Called when no operation is in flight any more.
void writer::clean_up() {
  TND_ASSERT(has_failed_ && in_flight_count_ == 0);
  if (is_cleaning_)
    return report_failure();
  is_cleaning_ = true;
  std::shared_ptr<log_file> last;
  for (const auto &pending : groups_) {
    if (std::exchange(last, pending->file) != pending->file)
      clean_file(pending->file);
  }
  if (head_ && head_ != last)
    clean_file(head_);
  head_.reset();
  head_state_ = head::closed;
}

// Remove a file without a durable record, and truncate any other. If that fails, the file stays as
// it is, and the next file's header marks its remaining records as abandoned.
void writer::clean_file(const std::shared_ptr<log_file> &file) {
  in_flight_count_++;
  bool const empty = file->size == block_size;
  auto const done = [this, file, empty](status code) {
    in_flight_count_--;
    bool const known = state_.files.contains(file->identity.file_sequence);
    if (code == status::ok && empty) {
      TND_ASSERT(!known || state_.stored_size >= block_size);
      if (known)
        state_.stored_size -= block_size;
      state_.files.erase(file->identity.file_sequence);
      file->is_unlinked = true;
      return close_unused(state_, *file);
    }
    file->has_invalid_tail = code != status::ok;
    if (code == status::ok)
      return;
    log(log_level::warning,
        "{}: the remains of a failed write cannot be cut off ({})",
        file->url,
        tnd_status_name(tnd_status(code)));
    if (!known)
      state_.stored_size += block_size;
    state_.files[file->identity.file_sequence] = file;
  };
  if (empty)
    remove_file(state_, file, done);
  else
    truncate_file(state_, file, done);
}

void writer::report_failure() {
  TND_ASSERT(failure_ != status::ok && head_state_ == head::closed);
  std::deque<std::unique_ptr<outgoing_record>> retried;
  for (const auto &pending : groups_) {
    for (auto &record : pending->records) {
      if (may_retry(*record, failure_)) {
        retried.push_back(std::move(record));
      } else {
        state_.queue_callbacks(std::move(record->callbacks), failure_);
      }
    }
  }
  groups_.clear();
  requeue(std::move(retried));
  state_.next_sequence = state_.durable_sequence + 1;
  state_.names.forget_all();
  has_failed_ = false;
  is_cleaning_ = false;
}

void remove_file(log_state &state, const std::shared_ptr<log_file> &file, file_callback done) {
  state.io.post(make_url_op(store_op_kind::unlink, file->url),
                [&state, file, done](const auto &unlinked) {
                  if (unlinked.code != status::ok && unlinked.code != status::no_entry)
                    return done(unlinked.code);
                  state.io.post(make_url_op(store_op_kind::sync_names, state.options.url),
                                [done](const auto &synced) { done(synced.code); });
                });
}

void truncate_file(log_state &state, const std::shared_ptr<log_file> &file, file_callback done) {
  state.io.post(make_file_op(store_op_kind::truncate, file->handle, file->size),
                [&state, file, done](const auto &cut) {
                  if (cut.code != status::ok)
                    return done(cut.code);
                  state.io.post(make_file_op(store_op_kind::sync, file->handle),
                                [done](const auto &synced) { done(synced.code); });
                });
}

void release_reserve(log_state &state) {
  space_reserve *const reserve = state.options.reserve;
  if (reserve == nullptr || state.is_full)
    return;
  state.is_full = true;
  auto const code = reserve->release();
  log(log_level::error,
      "{}: the file system is full: puts are refused until it has space for the reserve of {} "
      "bytes ({}); remove objects",
      state.options.url,
      reserve->size(),
      code == status::ok ? "released to removals" : tnd_status_name(tnd_status(code)));
}

bool acquire_reserve(log_state &state, uint64_t now_ns) {
  if (!state.is_full)
    return true;
  if (now_ns < state.reserve_retry_ns)
    return false;
  TND_ASSERT(state.options.reserve != nullptr);
  auto const code = state.options.reserve->acquire();
  if (code == status::ok) {
    log(log_level::info,
        "{}: the file system has space again: puts are accepted",
        state.options.url);
    state.is_full = false;
    return true;
  }
  state.reserve_retry_ns = seams::deadline_after(now_ns, state.options.retry_delay_ns);
  return false;
}

void close_unused(log_state &state, log_file &file) {
  if (!file.is_unlinked || file.user_count != 0 || file.handle == seams::no_store_file)
    return;
  auto const handle = std::exchange(file.handle, seams::no_store_file);
  state.io.post(make_file_op(store_op_kind::close, handle), [](const auto &) {});
}

}  // namespace tanada::pool
