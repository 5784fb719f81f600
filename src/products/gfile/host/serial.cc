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

// ---- open

void core::post_open(record &file, const seams::store_open_flags &flags) {
  auto io = make(operation::kind::open, file);
  io->body.kind = seams::store_op_kind::open;
  io->body.url = file.url;
  io->body.open_flags = flags;
  if (file.phase == record::state::opening && !flags.write)
    reserve_open_frames(file, *io);
  file.serial->waiting = true;
  post(std::move(io));
}

void core::advance_open(record &file) {
  serial_operation &serial = *file.serial;
  u64 const flags = serial.request.words[0];
  seams::store_open_flags const wanted = store_flags(flags);
  if (file.phase != record::state::open) {
    if (serial.phase == serial_operation::stage::flush) {
      serial.phase = serial_operation::stage::act;
      file.phase = record::state::opening;
      return post_open(file, wanted);
    }
  } else if (serial.phase == serial_operation::stage::flush) {
    // The file is already open.
    if (wanted.create && wanted.exclusive)
      return finish_serial(file, status::exists);
    if (wanted.write && !file.handle->writable) {
      serial.phase = serial_operation::stage::act;
      return post_open(file, {.read = true, .write = true});
    }
    serial.phase = serial_operation::stage::act;
    if (!wanted.truncate && file.write_opens == 0) {
      auto io = make(operation::kind::stat, file);
      io->handle = file.handle.get();
      io->body.kind = seams::store_op_kind::stat;
      serial.waiting = true;
      return post(std::move(io));
    }
  }
  // The process has no descriptor left: one comes free when another file is closed.
  if (serial.code == status::too_many_files && try_defer_open(file))
    return;
  if (serial.code != status::ok) {
    if (file.opens == 0 && file.phase == record::state::opening) {
      status const code = serial.code;
      file.phase = record::state::remembered;
      file.is_version_stable = false;
      finish_serial(file, code);
      return;
    }
    return finish_serial(file, serial.code);
  }
  if (wanted.truncate && file.opens > 0 && serial.phase == serial_operation::stage::act) {
    if (!try_flush(file))
      return;
    serial.phase = serial_operation::stage::reopen;
    auto io = make(operation::kind::truncate, file);
    io->handle = file.handle.get();
    io->body.kind = seams::store_op_kind::truncate;
    io->body.size = 0;
    serial.request.words[1] = 0;
    file.truncate_size = 0;
    serial.waiting = true;
    return post(std::move(io));
  }
  file.opens++;
  if (wanted.write)
    file.write_opens++;
  if (file.write_opens == 0)
    choose_path(file);
  finish_serial(file, status::ok, {file.epoch, file.key, file.size, changes(file, true)},
                file.index);
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
  keep_idle(file);
  retry_count_--;  // this request cannot use the record that it just freed
  defer_named_request(std::move(waiting));
  return true;
}

void core::on_open(operation &done, seams::store_completion &result) {
  record &file = files_[done.file];
  file.serial->waiting = false;
  file.serial->code = result.code;
  finish_open(done, result);
  if (!done.frames.empty())
    publish_open_bytes(done, result);
}

void core::finish_open(operation &done, const seams::store_completion &result) {
  record &file = files_[done.file];
  serial_operation &serial = *file.serial;
  if (result.code != status::ok) {
    log(log_level::info, "%s: open: %s", file.url.c_str(),
        tnd_status_name(tnd_status(result.code)));
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
  bool const same = file.is_version_stable && file.key != 0 &&
                    result.stat.version == file.version && !store_flags(flags).truncate;
  file.handle = std::move(opened);
  file.phase = record::state::open;
  file.version = result.stat.version;
  file.is_version_stable = result.stat.is_version_stable;
  file.size = result.stat.size;
  file.store_size = result.stat.size;
  file.truncate_size = ~uint64_t{0};
  file.has_earlier_views = false;  // no kernel had it open
  file.epoch++;
  if (!same && !serial.has_new_key && !renew_key(file))
    serial.code = status::overflow;
}

// Revalidate a file that only readers have open. The cached pages are dropped unless they are
// certainly unchanged.
void core::revalidate(record &file, const seams::store_stat &store_stat) {
  if (file.is_version_stable && store_stat.version == file.version)
    return;
  file.version = store_stat.version;
  file.is_version_stable = store_stat.is_version_stable;
  file.size = store_stat.size;
  file.store_size = store_stat.size;
  file.truncate_size = ~uint64_t{0};
  file.epoch++;
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
    auto io = make(operation::kind::close, file);
    io->body.kind = seams::store_op_kind::close;
    io->handle = handle.get();
    post(std::move(io));
    handle->file = seams::no_store_file;
  }
}

void core::advance_close(record &file) {
  serial_operation &serial = *file.serial;
  bool const writer = wants_write(serial.request.words[0]) && file.write_opens > 0;
  using stage = serial_operation::stage;
  if (serial.phase == stage::flush) {
    bool const last = file.opens == 1, last_writer = writer && file.write_opens == 1;
    if ((writer || last) && !try_flush(file))
      return;
    if (!last && last_writer && !file.unlinked) {  // an unlinked file cannot be opened again
      serial.phase = stage::reopen;
      return post_open(file, {.read = true});
    }
    serial.phase = stage::retire;
    if (last) {
      file.access.memory = {};  // a mapping holds its own reference
      retire(file);
    }
  }
  if (serial.phase == stage::reopen)
    serial.phase = stage::retire;
  if (!file.retired.empty())
    return;
  file.opens--;
  if (writer)
    file.write_opens--;
  if (file.opens > 0 && file.write_opens == 0)
    choose_path(file);
  status const write_error = writer || file.opens == 0 ? take_error(file) : status::ok;
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
    if (file.handle->writable) {
      auto io = make(operation::kind::sync, file);
      io->handle = file.handle.get();
      io->body.kind = seams::store_op_kind::sync;
      serial.waiting = true;
      return post(std::move(io));
    }
  }
  status const write_error = take_error(file);
  finish_serial(file, write_error != status::ok ? write_error : serial.code);
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
    auto io = make(operation::kind::truncate, file);
    io->handle = file.handle.get();
    io->body.kind = seams::store_op_kind::truncate;
    file.truncate_size = serial.request.words[0];
    io->body.size = file.truncate_size;
    serial.waiting = true;
    return post(std::move(io));
  }
  finish_serial(file, serial.code, {file.epoch, file.key});
}

void core::on_serial_done(operation &done, seams::store_completion &result) {
  record &file = files_[done.file];
  if (done.type == operation::kind::close) {
    bool const is_lost = result.code != status::ok && done.handle->writable;
    if (is_lost && file.error == status::ok)
      file.error = result.code;
    if (result.code != status::ok && !is_lost)
      log(log_level::info, "%s: close after reading: %s", file.url.c_str(),
          tnd_status_name(tnd_status(result.code)));
    open_count_--;
    retry_count_++;
    std::erase_if(file.retired, [&](auto &handle) { return handle.get() == done.handle; });
    // After reading only, the version stays that of the open: another node's later writes are in
    // the store's version, but not in the cached pages. After writing, the store's version cannot
    // distinguish this node's writes from another's, so nothing is kept.
    if (file.write_opens > 0)
      file.is_version_stable = false;
    return;
  }
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
