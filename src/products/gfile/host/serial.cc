// products/gfile/host/serial.cc: serial operations of a file: open, close, sync, truncate. Each
// advances through its stages as kernels return frames and stores complete.
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/gfile/host/core.hpp"

#include <tanada/status.h>

#include <fcntl.h>

namespace tanada::gfile {

namespace {

bool wants_write(u64 flags) {
  return (flags & O_ACCMODE) != O_RDONLY;
}

// Only such an open has no effect that a later one could see.
bool is_reader(const seams::store_open_flags &flags) {
  return flags.read && !flags.write && !flags.create && !flags.exclusive;
}

seams::store_open_flags store_flags(u64 flags) {
  return {.read = (flags & O_ACCMODE) != O_WRONLY,
          .write = wants_write(flags),
          .create = (flags & O_CREAT) != 0,
          .exclusive = (flags & O_EXCL) != 0,
          .truncate = (flags & O_TRUNC) != 0 && wants_write(flags)};
}

}  // namespace

void core::run_serial(record &file, pending request) {
  if (!file.serial && file.queue.empty())
    file.serial.emplace().request = std::move(request);
  else
    file.queue.push_back(std::move(request));
  advance(file);
}

// Advance the file's serial operation as far as possible, and then the next one.
void core::advance(record &file) {
  for (;;) {
    if (!file.serial) {
      if (file.queue.empty())
        return;
      file.serial.emplace();
      file.serial->request = std::move(file.queue.front());
      file.queue.pop_front();
    }
    if (file.serial->waiting)
      return;
    op const operation = file.serial->request.operation;
    bool const is_first_stage = file.serial->phase == serial_operation::stage::flush;
    if (operation == op::open)
      advance_open(file);
    else if (operation == op::unlink)
      advance_unlink(file);
    else if (is_first_stage && open_record(file.index) == nullptr)
      finish_serial(file, status::bad_file);  // closed meanwhile
    else if (operation == op::close)
      advance_close(file);
    else if (operation == op::sync)
      advance_sync(file);
    else
      advance_truncate(file);
    if (file.serial)
      return;
  }
}

// ---- at the store

// An operation at the store for the file's serial operation, on the open file.
std::unique_ptr<operation> core::make_serial(operation::kind op_kind,
                                             seams::store_op_kind body_kind,
                                             record &file) {
  TND_ASSERT(file.handle != nullptr);
  auto io = make(op_kind, file);
  io->handle = file.handle.get();
  io->body.kind = body_kind;
  return io;
}

// The serial operation continues when `io` has completed.
void core::post_serial(record &file, std::unique_ptr<operation> io) {
  TND_ASSERT(file.serial && !file.serial->waiting);
  file.serial->waiting = true;
  post(std::move(io));
}

void core::post_open(record &file, const seams::store_open_flags &flags) {
  auto io = make(operation::kind::open, file);
  io->body.kind = seams::store_op_kind::open;
  io->body.url = file.url;
  io->body.open_flags = flags;
  bool const is_first = file.phase == record::state::opening;
  if (is_first && is_reader(flags))
    file.load->opening_count++;
  if (is_first && !flags.write)
    reserve_open_frames(file, *io);
  post_serial(file, std::move(io));
}

// An open for reading may have to wait for others of its store.
void core::post_first_open(record &file, const seams::store_open_flags &flags) {
  TND_ASSERT(file.phase == record::state::opening);
  if (!is_reader(flags) || file.load->opening_count < opening_count_max())
    return post_open(file, flags);
  file.serial->waiting = true;
  file.load->waiting_opens.push_back(file.index);
}

void core::post_truncate(record &file, uint64_t size) {
  auto io = make_serial(operation::kind::truncate, seams::store_op_kind::truncate, file);
  io->body.size = size;
  file.truncate_size = size;
  post_serial(file, std::move(io));
}

// ---- open

void core::advance_open(record &file) {
  using stage = serial_operation::stage;
  serial_operation &serial = *file.serial;
  seams::store_open_flags const wanted = store_flags(serial.request.words[0]);
  if (serial.phase == stage::flush && begin_open(file, wanted))
    return;
  // The process has no descriptor left: one comes free when another file is closed.
  if (serial.code == status::too_many_files && try_defer_open(file))
    return;
  if (serial.code != status::ok)
    return fail_open(file);
  if (wanted.truncate && file.opens > 0 && serial.phase == stage::act) {
    if (!try_flush(file))
      return;
    serial.phase = stage::reopen;
    serial.request.words[1] = 0;
    return post_truncate(file, 0);
  }
  file.opens++;
  if (wanted.write)
    file.write_opens++;
  if (file.write_opens == 0)
    choose_path(file);
  finish_serial(
      file,
      status::ok,
      {file.epoch | u64(file.failures.count) << 32, file.key, file.size, changes(file, true)},
      file.index);
}

// The first stage. Returns true if the open waits for its store, or has ended.
bool core::begin_open(record &file, const seams::store_open_flags &wanted) {
  file.serial->phase = serial_operation::stage::act;
  if (file.phase != record::state::open) {
    TND_ASSERT(file.opens == 0);
    file.phase = record::state::opening;
    post_first_open(file, wanted);
    return true;
  }
  if (wanted.create && wanted.exclusive) {
    finish_serial(file, status::exists);
    return true;
  }
  if (wanted.write && !file.handle->writable) {
    post_open(file, {.read = true, .write = true});
    return true;
  }
  if (wanted.truncate || file.write_opens > 0)
    return false;
  post_serial(file, make_serial(operation::kind::stat, seams::store_op_kind::stat, file));
  return true;
}

void core::fail_open(record &file) {
  status const code = file.serial->code;
  TND_ASSERT(code != status::ok);
  if (file.opens == 0 && file.phase == record::state::opening) {
    file.phase = record::state::remembered;
    file.is_version_stable = false;
  }
  finish_serial(file, code);
}

// Let the open wait for another file's close. Returns true if it waits; its record is then idle.
bool core::try_defer_open(record &file) {
  pending &request = file.serial->request;
  if (file.opens > 0 || open_count_ == 0 || request.slot == rpc::no_slot || shutting_down_)
    return false;
  if (request.since_ns != 0 &&
      clock_.now_ns() - request.since_ns > options_.read_timeout_ns / 10 * 9)
    return false;
  pending waiting = std::move(request);
  waiting.url = file.url;
  file.phase = record::state::remembered;
  file.is_version_stable = false;
  file.serial.reset();
  (void)try_remember(file);  // raises no retry: this request cannot use the record that it freed
  defer_named_request(std::move(waiting));
  return true;
}

void core::on_open(operation &done, const seams::store_completion &result) {
  record &file = files_[done.file];
  TND_ASSERT(file.serial && file.serial->waiting);
  file.serial->waiting = false;
  file.serial->code = result.code;
  bool const is_first = file.phase == record::state::opening && is_reader(done.body.open_flags);
  finish_open(done, result);
  if (!done.frames.empty())
    publish_open_bytes(done, result);
  if (is_first)
    end_first_open(*file.load);
}

void core::finish_open(operation &done, const seams::store_completion &result) {
  record &file = files_[done.file];
  serial_operation &serial = *file.serial;
  if (result.code != status::ok) {
    log(log_level::info, "{}: open: {}", file.url, tnd_status_name(tnd_status(result.code)));
    return;
  }
  auto opened = std::make_unique<store_handle>();
  open_count_++;
  opened->file = result.file;
  file.access = done.access ? std::move(*done.access) : file.store->access(opened->file);
  if (serial.request.operation == op::close) {  // reopened for reading after the last writer
    retire(file);
    file.handle = std::move(opened);
    return;
  }
  u64 const flags = serial.request.words[0];
  opened->writable = wants_write(flags);
  if (file.opens > 0) {  // an open file, reopened for writing too
    retire(file);
    file.handle = std::move(opened);
    if (file.handle->writable)
      abandon_path(file);
    return revalidate(file, result.stat);
  }
  if (opened->writable)
    abandon_path(file);
  file.handle = std::move(opened);
  begin_view(file, result.stat);
}

// The file was opened for its first descriptor. Cached pages stay valid if it is certainly
// unchanged.
void core::begin_view(record &file, const seams::store_stat &store_stat) {
  serial_operation &serial = *file.serial;
  TND_ASSERT(file.opens == 0 && file.handle != nullptr);
  bool const is_truncated = store_flags(serial.request.words[0]).truncate;
  bool const same = file.is_version_stable && file.key != 0 && store_stat.version == file.version &&
                    !is_truncated;
  file.phase = record::state::open;
  file.has_earlier_views = false;  // no kernel had it open
  record_stat(file, store_stat);
  if (!same && !serial.has_new_key && !renew_key(file))
    serial.code = status::overflow;
}

// Begin an epoch with the store's version and size of the file.
void core::record_stat(record &file, const seams::store_stat &store_stat) {
  file.version = store_stat.version;
  file.is_version_stable = store_stat.is_version_stable;
  file.size = store_stat.size;
  file.store_size = store_stat.size;
  file.truncate_size = ~uint64_t{0};
  file.epoch++;
}

// Revalidate a file that only readers have open. The cached pages are dropped unless they are
// certainly unchanged.
void core::revalidate(record &file, const seams::store_stat &store_stat) {
  if (file.is_version_stable && store_stat.version == file.version)
    return;
  record_stat(file, store_stat);
  if (!renew_key(file))
    file.serial->code = status::overflow;
}

// ---- close

// The handle is closed once the operations that use it have completed.
void core::retire(record &file) {
  if (file.handle != nullptr)
    file.retired.push_back(std::move(file.handle));
  close_if_unused(file);
}

void core::close_if_unused(record &file) {
  for (auto &handle : file.retired) {
    if (handle == nullptr || handle->uses > 0 || handle->file == seams::no_store_file)
      continue;
    if (handle->writable)
      post_close(file, *handle);
    else
      batch_close(file, *handle);
  }
}

void core::post_close(record &file, store_handle &handle) {
  auto io = make(operation::kind::close, file);
  io->body.kind = seams::store_op_kind::close;
  io->handle = &handle;
  post(std::move(io));
  handle.file = seams::no_store_file;
}

void core::advance_close(record &file) {
  using stage = serial_operation::stage;
  serial_operation &serial = *file.serial;
  if (serial.phase == stage::flush && !begin_close(file))
    return;
  serial.phase = stage::retire;
  if (file.retired.empty())
    end_close(file);
}

// Write back what the descriptor's last or last writing close publishes. Returns false if the close
// has to wait.
bool core::begin_close(record &file) {
  serial_operation &serial = *file.serial;
  bool const is_writer = closes_writer(file);
  bool const is_last = file.opens == 1;
  bool const is_last_writer = is_writer && file.write_opens == 1;
  if ((is_writer || is_last) && !try_flush(file))
    return false;
  if (!is_last && is_last_writer && !file.unlinked) {  // an unlinked file cannot be opened again
    serial.phase = serial_operation::stage::reopen;
    post_open(file, {.read = true});
    return false;
  }
  if (is_last) {
    drop_lists(file, status::bad_file);
    file.access.memory = {};  // a mapping holds its own reference
    retire(file);
  }
  return true;
}

// Whether the file's serial operation, a close, ends the open of a writer.
bool core::closes_writer(const record &file) const {
  TND_ASSERT(file.serial && file.serial->request.operation == op::close);
  return wants_write(file.serial->request.words[0]) && file.write_opens > 0;
}

// No handle is left to be closed: take the descriptor away, and answer.
void core::end_close(record &file) {
  serial_operation &serial = *file.serial;
  TND_ASSERT(file.opens > 0 && file.retired.empty());
  bool const is_writer = closes_writer(file);
  file.opens--;
  if (is_writer)
    file.write_opens--;
  if (file.opens > 0 && file.write_opens == 0)
    choose_path(file);
  status const write_error =
      is_writer || file.opens == 0 ? failure_for(file, serial.request) : status::ok;
  if (file.opens == 0) {
    file.write_opens = 0;
    file.phase = record::state::remembered;
    file.was_closed = true;
    if (file.unlinked)
      file.is_version_stable = false;
  }
  status const code = write_error != status::ok ? write_error : serial.code;
  bool const can_forget = file.opens == 0 && file.unlinked && file.queue.empty();
  finish_serial(file, code);
  if (can_forget)
    forget(file);
}

// ---- sync and truncate

void core::advance_sync(record &file) {
  serial_operation &serial = *file.serial;
  using stage = serial_operation::stage;
  if (serial.phase == stage::flush) {
    if (!try_flush(file))
      return;
    serial.phase = stage::act;
    if (file.handle->writable)
      return post_serial(file,
                         make_serial(operation::kind::sync, seams::store_op_kind::sync, file));
  }
  status const write_error = failure_for(file, serial.request);
  finish_serial(
      file, write_error != status::ok ? write_error : serial.code, {}, file.failures.count);
}

void core::advance_truncate(record &file) {
  serial_operation &serial = *file.serial;
  using stage = serial_operation::stage;
  if (serial.phase == stage::flush) {
    if (!file.handle->writable)
      return finish_serial(file, status::bad_file);
    if (serial.request.words[0] >> options_.page_shift > tier::page_index_max)
      return finish_serial(file, status::too_big);
    if (!try_flush(file))
      return;
    serial.phase = stage::act;
    return post_truncate(file, serial.request.words[0]);
  }
  finish_serial(file, serial.code, {file.epoch, file.key});
}

// A retired handle is closed.
void core::on_closed(record &file, store_handle &handle, status code) {
  TND_ASSERT(handle.uses == 0 && open_count_ > 0);
  bool const is_lost = code != status::ok && handle.writable;
  if (is_lost)
    file.failures.add(code);
  if (code != status::ok && !is_lost)
    log(log_level::info,
        "{}: close after reading: {}",
        file.url,
        tnd_status_name(tnd_status(code)));
  open_count_--;
  retry_count_++;
  std::erase_if(file.retired, [&](auto &entry) { return entry.get() == &handle; });
  // After reading only, the version stays that of the open: another node's later writes are in
  // the store's version, but not in the cached pages. After writing, the store's version cannot
  // distinguish this node's writes from another's, so nothing is kept.
  if (file.write_opens > 0)
    file.is_version_stable = false;
}

void core::on_serial_done(operation &done, const seams::store_completion &result) {
  record &file = files_[done.file];
  TND_ASSERT(file.serial && file.serial->waiting);
  serial_operation &serial = *file.serial;
  serial.waiting = false;
  serial.code = result.code;
  if (done.type == operation::kind::truncate && result.code != status::timed_out)
    file.truncate_size = ~uint64_t{0};
  if (result.code != status::ok)
    return;
  if (done.type == operation::kind::truncate) {
    file.size = done.body.size;
    file.store_size = done.body.size;
    file.is_version_stable = false;
    file.epoch++;
    if (!renew_key(file))
      serial.code = status::overflow;
  } else if (done.type == operation::kind::stat) {
    revalidate(file, result.stat);
  }
}

}  // namespace tanada::gfile
