// The log's files: how the writer begins one, what happens when one fails, and how files and the
// reserve go.
#include <tanada/status.h>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/log/writer.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

using port::store_op_kind;

static constexpr uint32_t retry_count_max = 2;  // of one record in a full store

// A number that no other file of this pool is likely to have.
static uint64_t draw_file_id(const log_state &state, uint64_t file_sequence, uint64_t now_ns) {
  uint64_t const words[] = {file_sequence, state.next_sequence, now_ns};
  checksum sum{checksum_kind::xxh3};
  sum.add(std::as_bytes(std::span{state.identity}));
  sum.add(std::as_bytes(std::span{words}));
  return sum.value();
}

void writer::open_head() {
  auto const file = std::make_shared<log_file>();
  uint64_t const file_sequence = state_.next_file_sequence++;
  file->identity = {state_.identity, file_sequence,
                    draw_file_id(state_, file_sequence, clock_.now_ns())};
  file->url = file_url(state_.options.url, file_sequence);
  file->first_sequence = state_.next_sequence;
  file->last_sequence = state_.next_sequence - 1;
  file->size = block_size;
  head_state_ = head::opening;
  head_ = file;
  operations_left_++;
  auto op =
      on_url(store_op_kind::open, file->url,
             {.read = true, .write = true, .create = true, .exclusive = true, .owner_only = true});
  state_.io.post(std::move(op), [this, file](const auto &opened) {
    operations_left_--;
    if (opened.code != status::ok)
      return head_failed(file, opened.code);
    file->handle = opened.file;
    head_opened(file);
  });
}

// Header, its bytes, its name: a record in a file that a crash may take away is not durable.
void writer::head_opened(const std::shared_ptr<log_file> &file) {
  auto const block = std::make_shared<block_buffer>(block_size);
  encode_file_header({file->identity, file->first_sequence, state_.options.with_data},
                     block->span());
  operations_left_++;
  auto const ready = [this, file](const auto &named) {
    operations_left_--;
    if (named.code != status::ok)
      return head_failed(file, named.code);
    if (failed_)
      return;  // of an older file; this one goes, too
    head_state_ = head::ready;
    head_offset_ = block_size;
    state_.files[file->identity.file_sequence] = file;
    state_.stored_size += block_size;
  };
  auto const synced = [this, file, ready](const auto &done) {
    operations_left_--;
    if (done.code != status::ok)
      return head_failed(file, done.code);
    operations_left_++;
    state_.io.post(on_url(store_op_kind::sync_names, state_.options.url), ready);
  };
  state_.io.post(transfer(store_op_kind::write, file->handle, 0, {{block->data(), block_size}}),
                 [this, file, block, synced](const auto &written) {
                   operations_left_--;
                   if (written.code != status::ok)
                     return head_failed(file, written.code);
                   operations_left_++;
                   state_.io.post(on_file(store_op_kind::sync, file->handle), synced);
                 });
}

// Whoever waits for the file is told. Groups in the file before it go on.
void writer::head_failed(const std::shared_ptr<log_file> &file, status code) {
  log(log_level::warning, "%s: the file cannot be begun (%s)", file->url.c_str(),
      tnd_status_name(tnd_status(code)));
  head_.reset();
  head_state_ = head::none;
  if (code != status::exists)
    clean_file(file);  // else it is not ours
  if (code == status::no_space)
    release_reserve(state_);
  std::deque<std::unique_ptr<outgoing_record>> retried;
  for (auto &record : std::exchange(queue_, {})) {
    if (may_retry(*record, code)) {
      retried.push_back(std::move(record));
    } else {
      state_.queue_callback(std::move(record->done), code);
    }
  }
  queue_size_ = 0;
  queue_first(std::move(retried));
}

// Whether a record that failed in a full store is written once more, into the room that the reserve
// has left.
bool writer::may_retry(outgoing_record &record, status code) const {
  bool const uses_reserve = state_.options.reserve != nullptr && !record.grows && !record.internal;
  return code == status::no_space && uses_reserve && record.retry_count++ < retry_count_max;
}

void writer::queue_first(std::deque<std::unique_ptr<outgoing_record>> records) {
  while (!records.empty()) {
    auto &last = records.back();
    for (auto &each : last->facts)
      each.superseded = 0;  // found again when the record is placed
    submit_first(std::move(last));
    records.pop_back();
  }
}

void writer::fail_all(status code, const log_file &file, const char *what) {
  if (failed_)
    return;
  failed_ = true;
  failure_ = code;
  if (code == status::no_space)
    release_reserve(state_);
  log(log_level::error, "%s: %s failed (%s): the file ends at offset %llu, another one is begun",
      file.url.c_str(), what, tnd_status_name(tnd_status(code)),
      static_cast<unsigned long long>(file.size));
}

// Nothing is on its way any more.
void writer::clean_up() {
  if (cleaning_)
    return tell_failure();
  cleaning_ = true;
  std::shared_ptr<log_file> last;
  for (const auto &each : groups_) {
    if (std::exchange(last, each->file) != each->file)
      clean_file(each->file);
  }
  if (head_ && head_ != last)
    clean_file(head_);
  head_.reset();
  head_state_ = head::none;
}

// A file without a durable record goes; another one is cut. Where that fails it stays as it is, and
// recovery finds in the next file's header that what it has from there on was given up.
void writer::clean_file(const std::shared_ptr<log_file> &file) {
  operations_left_++;
  bool const empty = file->size == block_size;
  auto const done = [this, file, empty](status code) {
    operations_left_--;
    bool const known = state_.files.contains(file->identity.file_sequence);
    if (code == status::ok && empty) {
      if (known)
        state_.stored_size -= block_size;
      state_.files.erase(file->identity.file_sequence);
      file->gone = true;
      return close_unused(state_, *file);
    }
    file->void_tail = code != status::ok;
    if (code == status::ok)
      return;
    log(log_level::warning, "%s: what a failed write left cannot be cut off (%s)",
        file->url.c_str(), tnd_status_name(tnd_status(code)));
    if (!known)
      state_.stored_size += block_size;
    state_.files[file->identity.file_sequence] = file;
  };
  if (empty)
    remove_file(state_, file, done);
  else
    cut_file(state_, file, done);
}

void writer::tell_failure() {
  std::deque<std::unique_ptr<outgoing_record>> retried;
  for (const auto &each : groups_) {
    for (auto &record : each->records) {
      if (may_retry(*record, failure_)) {
        retried.push_back(std::move(record));
      } else {
        state_.queue_callback(std::move(record->done), failure_);
      }
    }
  }
  groups_.clear();
  queue_first(std::move(retried));
  state_.next_sequence = state_.durable_sequence + 1;
  state_.names.build(state_.live, [](const auto &, const auto &) { TND_ASSERT(false); });
  failed_ = false;
  cleaning_ = false;
}

void remove_file(log_state &state, const std::shared_ptr<log_file> &file, file_done done) {
  state.io.post(on_url(store_op_kind::unlink, file->url),
                [&state, file, done](const auto &unlinked) {
                  if (unlinked.code != status::ok && unlinked.code != status::no_entry)
                    return done(unlinked.code);
                  state.io.post(on_url(store_op_kind::sync_names, state.options.url),
                                [done](const auto &synced) { done(synced.code); });
                });
}

void cut_file(log_state &state, const std::shared_ptr<log_file> &file, file_done done) {
  state.io.post(on_file(store_op_kind::truncate, file->handle, file->size),
                [&state, file, done](const auto &cut) {
                  if (cut.code != status::ok)
                    return done(cut.code);
                  state.io.post(on_file(store_op_kind::sync, file->handle),
                                [done](const auto &synced) { done(synced.code); });
                });
}

void release_reserve(log_state &state) {
  room_reserve *const reserve = state.options.reserve;
  if (reserve == nullptr || state.is_full)
    return;
  state.is_full = true;
  auto const code = reserve->release();
  log(log_level::error,
      "%s: the file system is full: puts are refused until it has room for the reserve of %llu "
      "bytes (%s); remove objects",
      state.options.url.c_str(), static_cast<unsigned long long>(reserve->size()),
      code == status::ok ? "released to removals" : tnd_status_name(tnd_status(code)));
}

bool acquire_reserve(log_state &state, uint64_t now_ns) {
  if (!state.is_full)
    return true;
  if (now_ns < state.reserve_retry_ns)
    return false;
  auto const code = state.options.reserve->acquire();
  if (code == status::ok) {
    log(log_level::info, "%s: the file system has room again: puts are taken",
        state.options.url.c_str());
    state.is_full = false;
    return true;
  }
  state.reserve_retry_ns = port::deadline_after(now_ns, state.options.retry_delay_ns);
  return false;
}

void close_unused(log_state &state, log_file &file) {
  if (!file.gone || file.user_count != 0 || file.handle == port::no_store_file)
    return;
  auto const handle = std::exchange(file.handle, port::no_store_file);
  state.io.post(on_file(store_op_kind::close, handle), [](const auto &) {});
}

}  // namespace tanada::pool
