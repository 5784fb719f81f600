// products/gfile/host/serial.cc: what is done to a file one at a time: open, close, sync, truncate.
// Each advances through its stages as kernels give frames back and stores complete.
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

port::store_open_flags store_flags(u64 flags) {
  return {.read = (flags & O_ACCMODE) != O_WRONLY,
          .write = wants_write(flags),
          .create = (flags & O_CREAT) != 0,
          .exclusive = (flags & O_EXCL) != 0,
          .truncate = (flags & O_TRUNC) != 0 && wants_write(flags)};
}

}  // namespace

void core::run_serial(record &file, pending asked) {
  if (!file.serial && file.queue.empty())
    file.serial.emplace().asked = std::move(asked);
  else
    file.queue.push_back(std::move(asked));
  advance(file);
}

// Go on with the file's serial operation as far as it goes now, and then with the next.
void core::advance(record &file) {
  for (;;) {
    if (!file.serial) {
      if (file.queue.empty())
        return;
      file.serial.emplace();
      file.serial->asked = std::move(file.queue.front());
      file.queue.pop_front();
    }
    if (file.serial->waiting)
      return;
    op const what = file.serial->asked.what;
    bool const begins = file.serial->now == serial_operation::stage::flush;
    if (what == op::open)
      advance_open(file);
    else if (what == op::unlink)
      advance_unlink(file);
    else if (begins && open_record(file.index) == nullptr)
      finish_serial(file, status::bad_file);  // closed meanwhile
    else if (what == op::close)
      advance_close(file);
    else if (what == op::sync)
      advance_sync(file);
    else
      advance_truncate(file);
    if (file.serial)
      return;
  }
}

// ---- open

void core::post_open(record &file, const port::store_open_flags &flags) {
  auto made = make(operation::kind::open, file);
  made->body.kind = port::store_op_kind::open;
  made->body.url = file.url;
  made->body.open_flags = flags;
  if (file.now == record::state::opening && !flags.write)
    make_room_for_bytes(file, *made);
  file.serial->waiting = true;
  post(std::move(made));
}

void core::advance_open(record &file) {
  serial_operation &serial = *file.serial;
  u64 const flags = serial.asked.words[0];
  port::store_open_flags const wanted = store_flags(flags);
  if (file.now != record::state::open) {
    if (serial.now == serial_operation::stage::flush) {
      serial.now = serial_operation::stage::act;
      file.now = record::state::opening;
      return post_open(file, wanted);
    }
  } else if (serial.now == serial_operation::stage::flush) {
    // Somebody has it open already.
    if (wanted.create && wanted.exclusive)
      return finish_serial(file, status::exists);
    if (wanted.write && !file.handle->writable) {
      serial.now = serial_operation::stage::act;
      return post_open(file, {.read = true, .write = true});
    }
    serial.now = serial_operation::stage::act;
    if (!wanted.truncate && file.write_opens == 0) {
      auto made = make(operation::kind::stat, file);
      made->handle = file.handle.get();
      made->body.kind = port::store_op_kind::stat;
      serial.waiting = true;
      return post(std::move(made));
    }
  }
  // The process has no descriptor left: one comes free when another file is closed.
  if (serial.code == status::too_many_files && opening_waits(file))
    return;
  if (serial.code != status::ok) {
    if (file.opens == 0 && file.now == record::state::opening) {
      status const code = serial.code;
      file.now = record::state::remembered;
      file.version_good = false;
      finish_serial(file, code);
      return;
    }
    return finish_serial(file, serial.code);
  }
  if (wanted.truncate && file.opens > 0 && serial.now == serial_operation::stage::act) {
    if (!flushed(file))
      return;
    serial.now = serial_operation::stage::reopen;
    auto made = make(operation::kind::truncate, file);
    made->handle = file.handle.get();
    made->body.kind = port::store_op_kind::truncate;
    made->body.size = 0;
    serial.asked.words[1] = 0;
    file.cut_to = 0;
    serial.waiting = true;
    return post(std::move(made));
  }
  file.opens++;
  if (wanted.write)
    file.write_opens++;
  if (file.write_opens == 0)
    choose_path(file);
  finish_serial(file, status::ok, {file.epoch, file.key, file.size, changes(file, true)},
                file.index);
}

// True if the open waits for another file's close: its request waits, and its record is idle.
bool core::opening_waits(record &file) {
  pending &asked = file.serial->asked;
  if (file.opens > 0 || open_count_ == 0 || asked.slot == rpc::no_slot || shutting_down_)
    return false;
  if (asked.since_ns != 0 && clock_.now_ns() - asked.since_ns > options_.read_timeout_ns / 10 * 9)
    return false;
  pending waiting = std::move(asked);
  waiting.url = file.url;
  file.now = record::state::remembered;
  file.version_good = false;
  file.serial.reset();
  keep_idle(file);
  retry_count_--;  // for that record is of no use to it
  wait_for_name(std::move(waiting));
  return true;
}

void core::on_open(operation &done, port::store_completion &result) {
  record &file = files_[done.file];
  file.serial->waiting = false;
  file.serial->code = result.code;
  opened(done, result);
  if (!done.frames.empty())
    place_bytes(done, result);
}

void core::opened(operation &done, const port::store_completion &result) {
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
  file.access = done.access ? std::move(*done.access) : file.where->access(opened->file);
  if (serial.asked.what == op::close) {  // back to reading after the last writer
    retire(file);
    file.handle = std::move(opened);
    return;
  }
  u64 const flags = serial.asked.words[0];
  opened->writable = wants_write(flags);
  if (file.opens > 0) {  // a file that is open, now for writing too
    retire(file);
    file.handle = std::move(opened);
    if (file.handle->writable)
      leave_path(file);
    return look_again(file, result.stat);
  }
  if (opened->writable)
    leave_path(file);
  bool const same = file.version_good && file.key != 0 && result.stat.version == file.version &&
                    !store_flags(flags).truncate;
  file.handle = std::move(opened);
  file.now = record::state::open;
  file.version = result.stat.version;
  file.version_good = result.stat.version_settled;
  file.size = result.stat.size;
  file.store_size = result.stat.size;
  file.cut_to = ~uint64_t{0};
  file.has_earlier_views = false;  // nobody had it open
  file.epoch++;
  if (!same && !serial.has_new_key && !renew_key(file))
    serial.code = status::overflow;
}

// What the store says now of a file that only readers have open: what is cached goes unless it is
// sure to be the same.
void core::look_again(record &file, const port::store_stat &now) {
  if (file.version_good && now.version == file.version)
    return;
  file.version = now.version;
  file.version_good = now.version_settled;
  file.size = now.size;
  file.store_size = now.size;
  file.cut_to = ~uint64_t{0};
  file.epoch++;
  if (!renew_key(file))
    file.serial->code = status::overflow;
}

// ---- close

// The handle is closed once the operations that use it are done.
void core::retire(record &file) {
  if (file.handle != nullptr)
    file.retired.push_back(std::move(file.handle));
  close_if_unused(file);
}

void core::close_if_unused(record &file) {
  for (auto &handle : file.retired) {
    if (handle == nullptr || handle->uses > 0 || handle->file == port::no_store_file)
      continue;
    auto made = make(operation::kind::close, file);
    made->body.kind = port::store_op_kind::close;
    made->handle = handle.get();
    post(std::move(made));
    handle->file = port::no_store_file;
  }
}

void core::advance_close(record &file) {
  serial_operation &serial = *file.serial;
  bool const writer = wants_write(serial.asked.words[0]) && file.write_opens > 0;
  using stage = serial_operation::stage;
  if (serial.now == stage::flush) {
    bool const last = file.opens == 1, last_writer = writer && file.write_opens == 1;
    if ((writer || last) && !flushed(file))
      return;
    if (!last && last_writer && !file.unlinked) {  // an unlinked file cannot be opened again
      serial.now = stage::reopen;
      return post_open(file, {.read = true});
    }
    serial.now = stage::retire;
    if (last) {
      file.access.memory = {};  // a mapping has its own share
      retire(file);
    }
  }
  if (serial.now == stage::reopen)
    serial.now = stage::retire;
  if (!file.retired.empty())
    return;
  file.opens--;
  if (writer)
    file.write_opens--;
  if (file.opens > 0 && file.write_opens == 0)
    choose_path(file);
  status const mine = writer || file.opens == 0 ? take_error(file) : status::ok;
  if (file.opens == 0) {
    file.write_opens = 0;
    file.now = record::state::remembered;
    file.was_closed = true;
    if (file.unlinked)
      file.version_good = false;
  }
  status const code = mine != status::ok ? mine : serial.code;
  bool const gone = file.opens == 0 && file.unlinked && file.queue.empty();
  finish_serial(file, code);
  if (gone)
    forget(file);
}

// ---- sync and truncate

void core::advance_sync(record &file) {
  serial_operation &serial = *file.serial;
  using stage = serial_operation::stage;
  if (serial.now == stage::flush) {
    if (!flushed(file))
      return;
    serial.now = stage::act;
    if (file.handle->writable) {
      auto made = make(operation::kind::sync, file);
      made->handle = file.handle.get();
      made->body.kind = port::store_op_kind::sync;
      serial.waiting = true;
      return post(std::move(made));
    }
  }
  status const mine = take_error(file);
  finish_serial(file, mine != status::ok ? mine : serial.code);
}

void core::advance_truncate(record &file) {
  serial_operation &serial = *file.serial;
  using stage = serial_operation::stage;
  if (serial.now == stage::flush) {
    if (!file.handle->writable)
      return finish_serial(file, status::bad_file);
    if (serial.asked.words[0] >> options_.page_shift > tier::page_index_max)
      return finish_serial(file, status::too_big);
    if (!flushed(file))
      return;
    serial.now = stage::act;
    auto made = make(operation::kind::truncate, file);
    made->handle = file.handle.get();
    made->body.kind = port::store_op_kind::truncate;
    file.cut_to = serial.asked.words[0];
    made->body.size = file.cut_to;
    serial.waiting = true;
    return post(std::move(made));
  }
  finish_serial(file, serial.code, {file.epoch, file.key});
}

void core::on_serial_done(operation &done, port::store_completion &result) {
  record &file = files_[done.file];
  if (done.what == operation::kind::close) {
    bool const is_lost = result.code != status::ok && done.handle->writable;
    if (is_lost && file.error == status::ok)
      file.error = result.code;
    if (result.code != status::ok && !is_lost)
      log(log_level::info, "%s: close after reading: %s", file.url.c_str(),
          tnd_status_name(tnd_status(result.code)));
    open_count_--;
    retry_count_++;
    std::erase_if(file.retired, [&](auto &handle) { return handle.get() == done.handle; });
    // After mere reading the version stays that of the open: what another node wrote since is in
    // the store's and not in our pages. After writing, the store's version cannot tell our writes
    // from another node's: nothing is kept.
    if (file.write_opens > 0)
      file.version_good = false;
    return;
  }
  serial_operation &serial = *file.serial;
  serial.waiting = false;
  serial.code = result.code;
  if (done.what == operation::kind::truncate && result.code != status::timed_out)
    file.cut_to = ~uint64_t{0};
  if (result.code != status::ok)
    return;
  if (done.what == operation::kind::truncate) {
    file.size = done.body.size;
    file.store_size = done.body.size;
    file.version_good = false;
    file.epoch++;
    if (!renew_key(file))
      serial.code = status::overflow;
  } else if (done.what == operation::kind::stat) {
    look_again(file, result.stat);
  }
}

}  // namespace tanada::gfile
