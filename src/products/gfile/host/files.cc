// products/gfile/host/files.cc: the records of files, the end of what is done to one, unlink and
// shutdown.
#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/gfile/host/core.hpp"

#include <tanada/status.h>

#include <cerrno>
#include <fcntl.h>
#include <utility>

namespace tanada::gfile {

// The record of a URL: the one there is, a free one, or the remembered one not used for longest. A
// record that is new to the URL takes it over.
record *core::record_for(std::string &url) {
  if (auto const known = by_url_.find(url); known != by_url_.end())
    return &files_[known->second];
  record *const taken = take_record();
  if (taken == nullptr)
    return nullptr;
  taken->url = std::move(url);
  by_url_.emplace(taken->url, taken->index);
  return taken;
}

// A record that stands for no URL, or null.
record *core::take_record() {
  if (!unused_.empty()) {
    record &file = files_[unused_.back()];
    unused_.pop_back();
    return &file;
  }
  if (files_.size() < options_.file_count_max) {
    record &file = files_.emplace_back();
    file.index = uint32_t(files_.size() - 1);
    return &file;
  }
  while (!closed_.empty()) {
    auto const [index, use] = closed_.front();
    closed_.pop_front();
    record &file = files_[index];
    if (file.now != record::state::remembered || file.last_use != use || !is_idle(file))
      continue;
    clear(file);
    return &file;
  }
  return nullptr;
}

bool core::is_idle(const record &file) const {
  return !file.serial && file.queue.empty();
}

// Another URL may have the record of a closed file. Entries of files that were opened since are
// left out now and then.
void core::keep_idle(record &file) {
  if (file.now != record::state::remembered || !is_idle(file))
    return;
  file.closed_use = ++uses_;
  closed_.emplace_back(file.index, file.last_use);
  retry_count_++;
  if (closed_.size() <= 2 * files_.size() + 64)
    return;
  std::erase_if(closed_, [&](auto const &entry) {
    record const &other = files_[entry.first];
    return other.now != record::state::remembered || other.last_use != entry.second;
  });
}

// Let go of a closed file, whose record stays the caller's; its cached pages are found no more.
void core::clear(record &file) {
  if (orphan_error_ == status::ok)
    orphan_error_ = file.error;
  if (auto const known = by_url_.find(file.url);
      known != by_url_.end() && known->second == file.index)
    by_url_.erase(known);
  drop_mapping(file);
  if (options_.on_recycled && !file.url.empty())
    options_.on_recycled(file.index, file.closed_use, uses_);
  record fresh;
  fresh.index = file.index;
  fresh.epoch = file.epoch;
  fresh.unsent = file.unsent;
  file = std::move(fresh);
}

// The same, and the record is free.
void core::forget(record &file) {
  clear(file);
  unused_.push_back(file.index);
  retry_count_++;
}

bool core::renew_key(record &file) {
  if (next_key_ > tier::file_key_max)
    return false;
  drop_mapping(file);
  file.key = next_key_++;
  file.has_earlier_views |= file.opens > 0;
  for (stream &run : file.streams)
    run = stream{};
  file.cut_logged = false;
  file.loaded_pages = 0;
  return true;
}

// Open and unlink, which name a file: its record is found or made, and they take their turn there.
// So it is known which opens got a file that is deleted.
void core::request_by_url(pending asked) {
  result<port::store *> where = stores_.find_open(asked.url);
  if (!where.ok())
    return answer(asked.slot, where.error());
  if (where.value() == nullptr)
    return load_store(std::move(asked));
  record *const file = record_for(asked.url);
  if (file == nullptr)
    return wait_for_name(std::move(asked));
  file->where = where.value();
  file->held_by_store = &held_[file->where];
  file->last_use = ++uses_;
  asked.file = file->index;
  run_serial(*file, std::move(asked));
}

// All records are of open files, or the process has no descriptor left: the request waits until a
// file is closed. The kernel may stop waiting at any time.
void core::wait_for_name(pending asked) {
  if (asked.since_ns == 0)
    asked.since_ns = clock_.now_ns();
  names_.push_back(std::move(asked));
}

void core::retry_names() {
  size_t count = std::min(std::exchange(retry_count_, 0), names_.size());
  while (count > 0 && !names_.empty()) {
    pending asked = std::move(names_.front());
    names_.pop_front();
    if (server_.is_canceled(asked.slot)) {
      answer(asked.slot, status::canceled);
      continue;
    }
    count--;
    request_by_url(std::move(asked));
  }
}

// Whose kernel does not wait any more is left out. Who has waited for nearly the whole time limit
// learns why.
void core::drop_names() {
  std::erase_if(names_, [&](const pending &asked) {
    bool const canceled = server_.is_canceled(asked.slot);
    bool const late =
        now_ns_ > asked.since_ns && now_ns_ - asked.since_ns > options_.read_timeout_ns / 10 * 9;
    if (canceled || late)
      answer(asked.slot, canceled ? status::canceled : status::too_many_files);
    return canceled || late;
  });
  retry_count_ = names_.size();  // a descriptor of the system may have come free elsewhere
}

// Opening a store may load a plugin: that is done without the lock, and the request comes back when
// it is done.
void core::load_store(pending asked) {
  if (is_change(asked))
    changes_loading_++;
  auto made = std::make_unique<operation>();
  made->what = operation::kind::load;
  made->body.url = asked.url;
  made->asked = std::move(asked);
  post(std::move(made));
}

void core::finish_serial(record &file, status code, std::initializer_list<u64> words, u32 value) {
  pending const asked = std::move(file.serial->asked);
  bool const opened = asked.what == op::open && code == status::ok;
  bool const publishes = asked.what == op::close || asked.what == op::sync;
  if (asked.is_posted)
    closing_count_--;
  bool const lost = publishes && code != status::ok && code != status::bad_file;
  file.serial.reset();
  // Lent, so that we hear of a kernel that did not wait for the answer: it must not leave the file
  // open, nor may it take an error with it.
  if (opened || (lost && asked.slot != rpc::no_slot)) {
    grants_[asked.slot] = {.what = opened ? grant::kind::open : grant::kind::error,
                           .file = file.index,
                           .flags = asked.words[0],
                           .code = code};
    server_.reply(asked.slot, code, value, words.begin(), uint32_t(words.size()), true);
  } else {
    if (lost && orphan_error_ == status::ok)
      orphan_error_ = code;
    answer(asked.slot, code, words, value);
  }
  keep_idle(file);
  if (file.held_writes.empty())
    return;
  std::list<pending> held;
  held.swap(file.held_writes);
  for (pending &each : held)
    dispatch(std::move(each));
}

// True once no kernel writes and nothing is dirty. Writes that come meanwhile are held.
bool core::flushed(record &file) {
  if (file.write_grants > 0)
    return false;
  for (auto at = file.dirty.begin(); at != file.dirty.end();) {
    uint64_t const page = at->first;
    if (may_write_back(at->second))
      start_write_back(file, page, ~0u);
    at = file.dirty.upper_bound(page);
  }
  return file.dirty.empty();
}

status core::take_error(record &file) {
  return std::exchange(file.error, status::ok);
}

status core::take_error() {
  status first = std::exchange(orphan_error_, status::ok);
  for (record &file : files_) {
    status const mine = take_error(file);
    if (first == status::ok)
      first = mine;
  }
  return first;
}

// ---- unlink and shutdown

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
  if (code == status::ok)
    unlinked(file);
  else if (file.now == record::state::unused && file.queue.empty())
    forget(file);
}

// The name is gone. Who has the file open keeps it; who opens the name from now on gets another.
void core::unlinked(record &file) {
  file.version_good = false;
  if (file.now != record::state::open) {
    if (file.queue.empty())
      forget(file);
    return;
  }
  by_url_.erase(file.url);
  file.unlinked = true;
  std::list<pending> rest;
  rest.swap(file.queue);
  for (pending &asked : rest) {
    asked.url = file.url;
    if (asked.what == op::open || asked.what == op::unlink)
      request_by_url(std::move(asked));
    else
      file.queue.push_back(std::move(asked));
  }
}

std::vector<unwritten_file> core::unwritten() const {
  std::vector<unwritten_file> all;
  for (record const &file : files_)
    if (file.write_opens > 0 || !file.dirty.empty() || file.error != status::ok)
      all.push_back({file.url, file.dirty.size()});
  return all;
}

void core::start_shutdown() {
  shutting_down_ = true;
  for (pending &asked : names_)
    answer(asked.slot, status::canceled);
  names_.clear();
  for (pending &asked : early_)
    answer(asked.slot, status::canceled);
  early_.clear();
  for (record &file : files_) {
    if (open_record(file.index) == nullptr || file.serial || !file.queue.empty())
      continue;
    file.opens = 1;
    u64 const flags = file.handle->writable ? O_RDWR : O_RDONLY;
    file.write_opens = file.handle->writable ? 1 : 0;
    run_serial(file, {rpc::no_slot, op::close, file.index, {flags, 0, 0}, {}});
  }
}

}  // namespace tanada::gfile
