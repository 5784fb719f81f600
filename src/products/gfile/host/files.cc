// products/gfile/host/files.cc: the records of files, the end of serial operations, unlink and
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

// A record for a URL that has none: a free one, or the least recently used remembered one. It takes
// over the URL.
record *core::make_record(std::string &url) {
  record *const file = take_record();
  if (file == nullptr)
    return nullptr;
  TND_ASSERT(file->url.empty() && file->phase == record::state::unused && is_idle(*file));
  file->url = std::move(url);
  by_url_.emplace(file->url, file->index);
  return file;
}

// A record without a URL, or null.
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
  while (!remembered_.empty()) {
    auto const [index, use] = remembered_.front();
    remembered_.pop_front();
    record &file = files_[index];
    if (file.phase != record::state::remembered || file.last_use != use || !is_idle(file))
      continue;
    clear(file);
    return &file;
  }
  return nullptr;
}

bool core::is_idle(const record &file) const {
  return !file.serial && file.queue.empty() && file.waiting_lists.empty() && file.list_count == 0;
}

// Make the record of a closed file available to other URLs, and one named request retry for it.
void core::keep_idle(record &file) {
  if (try_remember(file))
    retry_count_++;
}

// Make the record available to other URLs. Returns false if the file is in use. Stale entries, of
// files that were opened since, are removed when the list has grown.
bool core::try_remember(record &file) {
  if (file.phase != record::state::remembered || !is_idle(file))
    return false;
  TND_ASSERT(file.opens == 0);
  file.closed_use = ++uses_;
  remembered_.emplace_back(file.index, file.last_use);
  if (remembered_.size() <= 2 * files_.size() + 64)
    return true;
  std::erase_if(remembered_, [&](auto const &entry) {
    record const &candidate = files_[entry.first];
    return candidate.phase != record::state::remembered || candidate.last_use != entry.second;
  });
  return true;
}

// Clear the record of a closed file; the record stays the caller's. Its cached pages are no longer
// found.
void core::clear(record &file) {
  TND_ASSERT(is_idle(file) && file.opens == 0);
  if (orphan_error_ == status::ok)
    orphan_error_ = unreturned_failure(file);
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

// Clear the record and free it.
void core::forget(record &file) {
  clear(file);
  TND_ASSERT(unused_.size() < files_.size());
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
  file.truncation_logged = false;
  file.loaded_pages = 0;
  return true;
}

// Open and unlink name a file: find or create its record, and queue the request there. This order
// decides which opens got a file that is deleted.
void core::request_by_url(pending request) {
  result<seams::store *> store = stores_.find_open(request.url);
  if (!store.ok())
    return answer(request.slot, store.error());
  if (store.value() == nullptr)
    return load_store(std::move(request));
  // Requests that wait for a record come first.
  auto const known = by_url_.find(request.url);
  bool const is_behind =
      known == by_url_.end() && !named_requests_.empty() && !request.was_deferred;
  record *const file = known != by_url_.end() ? &files_[known->second]
                       : is_behind            ? nullptr
                                              : make_record(request.url);
  if (file == nullptr)
    return defer_named_request(std::move(request));
  file->store = store.value();
  file->load = &loads_[file->store];
  file->last_use = ++uses_;
  request.file = file->index;
  run_serial(*file, std::move(request));
}

// All records belong to open files, or the process has no descriptor left: the request waits until
// a file is closed. Its kernel may stop waiting at any time.
void core::defer_named_request(pending request) {
  if (request.since_ns == 0)
    request.since_ns = clock_.now_ns();
  request.was_deferred = true;
  named_requests_.push_back(std::move(request));
}

void core::retry_named_requests() {
  size_t count = std::min(std::exchange(retry_count_, 0), named_requests_.size());
  while (count > 0 && !named_requests_.empty()) {
    pending request = std::move(named_requests_.front());
    named_requests_.pop_front();
    if (server_.is_canceled(request.slot)) {
      answer(request.slot, status::canceled);
      continue;
    }
    count--;
    request_by_url(std::move(request));
  }
}

// Drop canceled requests. A request that has waited for nearly the whole timeout fails with
// too_many_files, so that its caller learns the reason.
void core::drop_named_requests() {
  std::erase_if(named_requests_, [&](const pending &request) {
    bool const canceled = server_.is_canceled(request.slot);
    bool const late = now_ns_ > request.since_ns &&
                      now_ns_ - request.since_ns > options_.read_timeout_ns / 10 * 9;
    if (canceled || late)
      answer(request.slot, canceled ? status::canceled : status::too_many_files);
    return canceled || late;
  });
  retry_count_ = named_requests_.size();  // a descriptor of the system may have come free elsewhere
}

// Opening a store may load a plugin. That is done without the lock; the request continues when it
// is done.
void core::load_store(pending request) {
  if (is_change(request))
    changes_loading_++;
  auto io = std::make_unique<operation>();
  io->type = operation::kind::load;
  io->body.url = request.url;
  io->request = std::move(request);
  post(std::move(io));
}

void core::finish_serial(record &file, status code, std::initializer_list<u64> words, u32 value) {
  TND_ASSERT(file.serial && !file.serial->waiting);
  pending const request = std::move(file.serial->request);
  file.serial.reset();
  if (request.is_posted) {
    TND_ASSERT(closing_count_ > 0);
    closing_count_--;
  }
  answer_serial(file, request, {code, words, value});
  keep_idle(file);
  if (file.held_writes.empty())
    return;
  std::list<pending> held_requests;
  held_requests.swap(file.held_writes);
  for (pending &held_request : held_requests)
    dispatch(std::move(held_request));
}

// Grant the answer to an open, and an error, so that the core is notified if the kernel did not
// wait for it: the file must not stay open, and an error must not be lost.
void core::answer_serial(const record &file, const pending &request, const serial_answer &reply) {
  auto const [code, words, value] = reply;
  bool const opened = request.operation == op::open && code == status::ok;
  bool const publishes = request.operation == op::close || request.operation == op::sync;
  bool const is_error_unreported = publishes && code != status::ok && code != status::bad_file;
  if (opened || (is_error_unreported && request.slot != rpc::no_slot)) {
    TND_ASSERT(grants_[request.slot].type == grant::kind::empty);
    grants_[request.slot] = {.type = opened ? grant::kind::open : grant::kind::error,
                             .file = file.index,
                             .flags = request.words[0],
                             .code = code};
    server_.reply(request.slot, code, value, words.begin(), uint32_t(words.size()), true);
  } else {
    if (is_error_unreported && orphan_error_ == status::ok)
      orphan_error_ = code;
    answer(request.slot, code, words, value);
  }
}

// Write back all dirty pages. Returns true once no kernel writes and no page is dirty. Writes that
// arrive meanwhile are held.
bool core::try_flush(record &file) {
  if (file.write_grants > 0)
    return false;
  for (auto it = file.dirty.begin(); it != file.dirty.end();) {
    uint64_t const page = it->first;
    if (may_write_back(it->second))
      start_write_back(file, page, ~0u);
    it = file.dirty.upper_bound(page);
  }
  return file.dirty.empty();
}

// The failure that no call has returned, which the caller will return.
status core::unreturned_failure(record &file) {
  return std::exchange(file.failures.is_returned, true) ? status::ok : file.failures.latest;
}

// The failure that this gfsync or gclose returns. A close without the count of its descriptor
// returns what no other call has.
status core::failure_for(record &file, const pending &request) {
  uint64_t const failure_count = request.words[1];
  if (failure_count == 0)
    return unreturned_failure(file);
  if (failure_count == file.failures.count)
    return status::ok;
  file.failures.is_returned = true;
  return file.failures.latest;
}

status core::take_error() {
  status first = std::exchange(orphan_error_, status::ok);
  for (record &file : files_) {
    status const code = unreturned_failure(file);
    if (first == status::ok)
      first = code;
  }
  return first;
}

// ---- unlink and shutdown

void core::advance_unlink(record &file) {
  serial_operation &serial = *file.serial;
  if (serial.phase == serial_operation::stage::flush) {
    serial.phase = serial_operation::stage::act;
    auto io = make(operation::kind::unlink, file);
    io->body.kind = seams::store_op_kind::unlink;
    io->body.url = file.url;
    return post_serial(file, std::move(io));
  }
  status const code = serial.code;
  finish_serial(file, code);
  if (code == status::ok)
    on_unlinked(file);
  else if (file.phase == record::state::unused && file.queue.empty())
    forget(file);
}

// The name is deleted. Descriptors that are open keep the file; later opens of the name get another
// one.
void core::on_unlinked(record &file) {
  file.is_version_stable = false;
  if (file.phase != record::state::open) {
    if (file.queue.empty())
      forget(file);
    return;
  }
  by_url_.erase(file.url);
  file.unlinked = true;
  std::list<pending> requests;
  requests.swap(file.queue);
  for (pending &request : requests) {
    request.url = file.url;
    if (request.operation == op::open || request.operation == op::unlink)
      request_by_url(std::move(request));
    else
      file.queue.push_back(std::move(request));
  }
}

std::vector<unwritten_file> core::unwritten() const {
  std::vector<unwritten_file> files;
  for (record const &file : files_)
    if (file.write_opens > 0 || !file.dirty.empty() || !file.failures.is_returned)
      files.push_back({file.url, file.dirty.size()});
  return files;
}

void core::start_shutdown() {
  shutting_down_ = true;
  for (pending &request : named_requests_)
    answer(request.slot, status::canceled);
  named_requests_.clear();
  for (pending &request : early_requests_)
    answer(request.slot, status::canceled);
  early_requests_.clear();
  for (record &file : files_) {
    drop_lists(file, status::canceled);
    if (open_record(file.index) == nullptr || file.serial || !file.queue.empty())
      continue;
    file.opens = 1;
    u64 const flags = file.handle->writable ? O_RDWR : O_RDONLY;
    file.write_opens = file.handle->writable ? 1 : 0;
    run_serial(file, {rpc::no_slot, op::close, file.index, {flags, 0, 0}, {}});
  }
}

}  // namespace tanada::gfile
