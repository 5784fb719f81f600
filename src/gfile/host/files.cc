// gfile/host/files.cc: open, close, sync, truncate, unlink: one at a time for each file.
#include "base/assert.hpp"
#include "base/log.hpp"
#include "gfile/host/core.hpp"

#include <tanada/status.h>

#include <cerrno>
#include <fcntl.h>

namespace tanada::gfile {

namespace {

bool wants_write(u64 flags) { return (flags & O_ACCMODE) != O_RDONLY; }

port::store_open_flags store_flags(u64 flags) {
  return {.read = (flags & O_ACCMODE) != O_WRONLY,
          .write = wants_write(flags),
          .create = (flags & O_CREAT) != 0,
          .exclusive = (flags & O_EXCL) != 0,
          .truncate = (flags & O_TRUNC) != 0 && wants_write(flags)};
}

}  // namespace

record *core::open_record(u32 index) {
  if (index >= files_.size()) return nullptr;
  record &file = files_[index];
  return file.now == record::state::open && file.opens > 0 && file.handle != nullptr ? &file : nullptr;
}

// The record of a URL: the one there is, a free one, or the remembered one not used for longest.
record *core::record_for(const std::string &url) {
  if (auto const known = by_url_.find(url); known != by_url_.end()) return &files_[known->second];
  record *oldest = nullptr;
  for (record &file : files_) {
    if (file.serial || !file.queue.empty()) continue;
    bool const remembered = file.now == record::state::remembered;
    if (file.now == record::state::unused) {
      oldest = &file;
      break;
    }
    if (remembered && (oldest == nullptr || file.last_use < oldest->last_use)) oldest = &file;
  }
  if (oldest == nullptr) return nullptr;
  forget(*oldest);
  oldest->url = url;
  by_url_[url] = oldest->index;
  return oldest;
}

// Let go of a closed file; its cached pages are found no more.
void core::forget(record &file) {
  if (orphan_error_ == status::ok) orphan_error_ = file.error;
  if (auto const known = by_url_.find(file.url); known != by_url_.end() && known->second == file.index)
    by_url_.erase(known);
  uint32_t const index = file.index, epoch = file.epoch;
  file = record{};
  file.index = index;
  file.epoch = epoch;
}

bool core::renew_key(record &file) {
  if (next_key_ > tier::file_key_max) return false;
  file.key = next_key_++;
  for (stream &run : file.streams) run = stream{};
  return true;
}

void core::request_open(pending asked) {
  result<port::store *> where = stores_.find(asked.url);
  if (!where.ok()) return answer(asked.slot, where.error());
  record *const file = record_for(asked.url);
  if (file == nullptr) return answer(asked.slot, status::too_many_files);
  file->where = where.value();
  file->held_by_store = &held_[file->where];
  file->last_use = ++uses_;
  asked.file = file->index;
  run_serial(*file, std::move(asked));
}

void core::run_serial(record &file, pending asked) {
  file.queue.push_back(std::move(asked));
  advance(file);
}

// Go on with the file's serial operation as far as it goes now, and then with the next.
void core::advance(record &file) {
  for (;;) {
    if (!file.serial) {
      if (file.queue.empty()) return;
      file.serial.emplace();
      file.serial->asked = std::move(file.queue.front());
      file.queue.pop_front();
    }
    if (file.serial->waiting) return;
    op const what = file.serial->asked.what;
    bool const begins = file.serial->now == serial_operation::stage::flush;
    if (what == op::open) advance_open(file);
    else if (what == op::unlink) advance_unlink(file);
    else if (begins && open_record(file.index) == nullptr) finish_serial(file, status::bad_file);  // closed meanwhile
    else if (what == op::close) advance_close(file);
    else if (what == op::sync) advance_sync(file);
    else advance_truncate(file);
    if (file.serial) return;
  }
}

void core::finish_serial(record &file, status code, std::initializer_list<u64> words, u32 value) {
  pending const asked = std::move(file.serial->asked);
  bool const opened = asked.what == op::open && code == status::ok;
  bool const publishes = asked.what == op::close || asked.what == op::sync;
  bool const lost = publishes && code != status::ok && code != status::bad_file;
  file.serial.reset();
  // Lent, so that we hear of a kernel that did not wait for the answer: it must not leave the file open, nor may it
  // take an error with it.
  if (opened || (lost && asked.slot != rpc::no_slot)) {
    grants_[asked.slot] = {.what = opened ? grant::kind::open : grant::kind::error,
                           .file = file.index,
                           .flags = asked.words[0],
                           .code = code};
    server_.reply(asked.slot, code, value, words.begin(), uint32_t(words.size()), true);
  } else {
    if (lost && orphan_error_ == status::ok) orphan_error_ = code;
    answer(asked.slot, code, words, value);
  }
  std::deque<pending> held;
  held.swap(file.held_writes);
  for (pending &each : held) dispatch(std::move(each));
}

// True once no kernel writes and nothing is dirty. Writes that come meanwhile are held.
bool core::flushed(record &file) {
  if (file.write_grants > 0) return false;
  for (auto at = file.dirty.begin(); at != file.dirty.end();) {
    uint64_t const page = at->first;
    if (may_write_back(at->second)) start_write_back(file, page, ~0u);
    at = file.dirty.upper_bound(page);
  }
  return file.dirty.empty();
}

status core::take_error(record &file) { return std::exchange(file.error, status::ok); }

status core::take_error() {
  status first = std::exchange(orphan_error_, status::ok);
  for (record &file : files_) {
    status const mine = take_error(file);
    if (first == status::ok) first = mine;
  }
  return first;
}

// ---- open

void core::post_open(record &file, const port::store_open_flags &flags) {
  auto made = make(operation::kind::open, file);
  made->body.kind = port::store_op_kind::open;
  made->body.url = file.url;
  made->body.open_flags = flags;
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
    if (wanted.create && wanted.exclusive) return finish_serial(file, status::exists);
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
    if (!flushed(file)) return;
    serial.now = serial_operation::stage::reopen;
    auto made = make(operation::kind::truncate, file);
    made->handle = file.handle.get();
    made->body.kind = port::store_op_kind::truncate;
    made->body.size = serial.asked.words[1] = 0;
    serial.waiting = true;
    return post(std::move(made));
  }
  file.opens++;
  if (wanted.write) file.write_opens++;
  finish_serial(file, status::ok, {file.epoch, file.key, file.size}, file.index);
}

void core::on_open(operation &done, port::store_completion &result) {
  record &file = files_[done.file];
  serial_operation &serial = *file.serial;
  serial.waiting = false;
  serial.code = result.code;
  if (result.code != status::ok) {
    log(log_level::info, "%s: open: %s", file.url.c_str(), tnd_status_name(tnd_status(result.code)));
    return;
  }
  auto opened = std::make_unique<store_handle>();
  opened->file = result.file;
  if (serial.asked.what == op::close) {  // back to reading after the last writer
    retire(file);
    file.handle = std::move(opened);
    return;
  }
  u64 const flags = serial.asked.words[0];
  opened->writable = wants_write(flags);
  if (file.opens > 0) {  // the same file, now for writing too
    retire(file);
    file.handle = std::move(opened);
    return;
  }
  bool const same = file.version_good && file.key != 0 && result.stat.version == file.version && !store_flags(flags).truncate;
  file.handle = std::move(opened);
  file.now = record::state::open;
  file.version = result.stat.version;
  file.version_good = result.stat.version_settled;
  file.size = file.store_size = result.stat.size;
  file.epoch++;
  if (!same && !renew_key(file)) serial.code = status::overflow;
}

// ---- close

// The handle is closed once the operations that use it are done.
void core::retire(record &file) {
  if (file.handle != nullptr) file.retired.push_back(std::move(file.handle));
  close_if_unused(file);
}

void core::close_if_unused(record &file) {
  for (auto &handle : file.retired) {
    if (handle == nullptr || handle->uses > 0 || handle->file == port::no_store_file) continue;
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
    if ((writer || last) && !flushed(file)) return;
    if (!last && last_writer && !file.unlinked) {  // an unlinked file cannot be opened again
      serial.now = stage::reopen;
      return post_open(file, {.read = true});
    }
    serial.now = stage::retire;
    if (last) retire(file);
  }
  if (serial.now == stage::reopen) serial.now = stage::retire;
  if (!file.retired.empty()) return;
  file.opens--;
  if (writer) file.write_opens--;
  status const mine = writer || file.opens == 0 ? take_error(file) : status::ok;
  if (file.opens == 0) {
    file.write_opens = 0;
    file.now = record::state::remembered;
    if (file.unlinked) file.version_good = false;
  }
  status const code = mine != status::ok ? mine : serial.code;
  bool const gone = file.opens == 0 && file.unlinked && file.queue.empty();
  finish_serial(file, code);
  if (gone) forget(file);
}

// ---- sync and truncate

void core::advance_sync(record &file) {
  serial_operation &serial = *file.serial;
  using stage = serial_operation::stage;
  if (serial.now == stage::flush) {
    if (!flushed(file)) return;
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
    if (!file.handle->writable) return finish_serial(file, status::bad_file);
    if (serial.asked.words[0] >> options_.page_shift > tier::page_index_max) return finish_serial(file, status::too_big);
    if (!flushed(file)) return;
    serial.now = stage::act;
    auto made = make(operation::kind::truncate, file);
    made->handle = file.handle.get();
    made->body.kind = port::store_op_kind::truncate;
    made->body.size = serial.asked.words[0];
    serial.waiting = true;
    return post(std::move(made));
  }
  finish_serial(file, serial.code, {file.epoch, file.key});
}

void core::on_serial_done(operation &done, port::store_completion &result) {
  record &file = files_[done.file];
  if (done.what == operation::kind::close) {
    if (result.code != status::ok && file.error == status::ok) file.error = result.code;
    std::erase_if(file.retired, [&](auto &handle) { return handle.get() == done.handle; });
    // After mere reading the version stays that of the open: what another node wrote since is in the store's and not in
    // our pages. After writing, the store's version cannot tell our writes from another node's: nothing is kept.
    if (file.write_opens > 0) file.version_good = false;
    return;
  }
  serial_operation &serial = *file.serial;
  serial.waiting = false;
  serial.code = result.code;
  if (result.code != status::ok) return;
  if (done.what == operation::kind::truncate) {
    file.size = file.store_size = done.body.size;
    file.version_good = false;
    file.epoch++;
    if (!renew_key(file)) serial.code = status::overflow;
  } else if (done.what == operation::kind::stat && result.stat.version != file.version) {
    file.version = result.stat.version;
    file.version_good = result.stat.version_settled;
    file.size = file.store_size = result.stat.size;
    file.epoch++;
    if (!renew_key(file)) serial.code = status::overflow;
  }
}

// ---- unlink and shutdown

// In turn with the opens of the same URL, so that it is known which of them got the file that is deleted.
void core::request_unlink(pending asked) {
  result<port::store *> where = stores_.find(asked.url);
  if (!where.ok()) return answer(asked.slot, where.error());
  record *const file = record_for(asked.url);
  if (file == nullptr) return answer(asked.slot, status::too_many_files);
  file->where = where.value();
  file->held_by_store = &held_[file->where];
  asked.file = file->index;
  run_serial(*file, std::move(asked));
}

void core::advance_unlink(record &file) {
  serial_operation &serial = *file.serial;
  if (serial.now == serial_operation::stage::flush) {
    serial.now = serial_operation::stage::act;
    auto made = make(operation::kind::unlink, file);
    made->body.kind = port::store_op_kind::unlink;
    made->body.url = file.url;
    serial.waiting = true;
    return post(std::move(made));
  }
  status const code = serial.code;
  finish_serial(file, code);
  if (code == status::ok) unlinked(file);
  else if (file.now == record::state::unused && file.queue.empty()) forget(file);
}

// The name is gone. Who has the file open keeps it; who opens the name from now on gets another.
void core::unlinked(record &file) {
  file.version_good = false;
  if (file.now != record::state::open) {
    if (file.queue.empty()) forget(file);
    return;
  }
  by_url_.erase(file.url);
  file.unlinked = true;
  std::deque<pending> rest;
  rest.swap(file.queue);
  for (pending &asked : rest) {
    if (asked.what == op::open) request_open(std::move(asked));
    else if (asked.what == op::unlink) request_unlink(std::move(asked));
    else file.queue.push_back(std::move(asked));
  }
}

void core::start_shutdown() {
  shutting_down_ = true;
  for (record &file : files_) {
    if (open_record(file.index) == nullptr || file.serial || !file.queue.empty()) continue;
    file.opens = 1;
    u64 const flags = file.handle->writable ? O_RDWR : O_RDONLY;
    file.write_opens = file.handle->writable ? 1 : 0;
    run_serial(file, {rpc::no_slot, op::close, file.index, {flags, 0, 0}, {}});
  }
}

}  // namespace tanada::gfile
