// products/poold/requests.cc: a session's handler of each kind of request, and the work on objects'
// bytes that some of them need: copying, clearing and summing, in bounded steps.
#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/checked.hpp"
#include "core/base/log.hpp"
#include "products/poold/session.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

using namespace wire::pool;
using wire::decode;

namespace {

constexpr size_t list_size_max =
    body_size_max - name_size_max - 1024;       // bytes of entries in one reply
constexpr size_t reply_part_count_max = 65536;  // pieces of memory in one reply

// The largest end of all ranges. too_big: there are too many ranges. overflow: a range, or the
// total, exceeds the largest size.
result<uint64_t> end_of_ranges(const std::vector<range> &ranges, uint64_t &total) {
  uint64_t end = 0;
  total = 0;
  if (ranges.size() > range_count_max)
    return status::too_big;
  for (const range &interval : ranges) {
    if (!range_fits(interval.offset, interval.size, object_size_max) ||
        !checked_add(total, interval.size, total))
      return status::overflow;
    end = std::max(end, interval.offset + interval.size);
  }
  return end;
}

}  // namespace

status session::require_writer() {
  return can_write_ ? status::ok : fail(status::access, "key {} allows only reading", key_id_);
}

// Check an object before its bytes are used, or a reply vouches for them.
status session::require_intact(const object &target) {
  service_.objects.check_memory();
  bool const may_be_repaired = target.is_damaged && service_.cluster != nullptr &&
                               service_.cluster->may_be_repaired(partition_);
  if (may_be_repaired) {
    set_last_message("its bytes are damaged on this server, which waits for another one's");
    return status::again;
  }
  if (target.is_damaged)
    return fail(status::io,
                "its bytes could not be restored when the daemon started: see the daemon's log");
  return target.is_intact()
             ? status::ok
             : fail(status::io,
                    "its bytes were lost, because part of the pool's backing file is gone");
}

// Nothing is logged, because a client with that many open objects continues without this one.
status session::require_free_handle() {
  if (handles_.size() < service_.limits.handle_count_max)
    return status::ok;
  set_last_message("the connection has " + std::to_string(handles_.size()) +
                   " objects open, the maximum: close some");
  return status::too_many_files;
}

result<session::handle *> session::find_handle(uint64_t id) {
  auto const it = handles_.find(id);
  if (it == handles_.end())
    return status::bad_file;
  return &it->second;
}

result<uint64_t> session::add_handle(handle new_handle) {
  TND_TRY(require_free_handle());
  uint64_t const id = next_handle_++;
  handles_[id] = std::move(new_handle);
  return id;
}

void session::send_object(uint64_t id, const handle &target) {
  object_reply reply;
  reply.handle = id;
  reply.object_info = target.object->client_metadata();
  auto const pieces = target.object->pieces();
  if (shares_memory_)
    reply.extents.assign(pieces.begin(), pieces.end());
  send_reply(reply);
}

status session::on_create(std::span<const std::byte> body) {
  create_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_writer());
  TND_TRY(check_create(request));
  catalog::opened_object before;
  if (auto match = service_.objects.open_bytes(namespace_id_, request.name, 0, false); match.ok())
    before = std::move(match).value();
  object_ref previous = before.object;
  if ((request.flags & flag_exclusive) != 0 && previous != nullptr)
    return status::exists;
  TND_TRY(require_free_handle());
  service_.objects.check_memory();  // so that lost memory is not allocated
  if ((request.flags & flag_keep) == 0) {
    previous.reset();
    before = {};
  }
  if (previous != nullptr)
    TND_TRY(require_intact(*previous));
  if (previous != nullptr && previous->striped != nullptr)
    return fail(status::not_supported, "the object is striped: its client has to copy its bytes");
  if (before.reader != nullptr) {
    auto job = std::make_unique<byte_job>();
    job->own_handle.name = request.name;
    job->body.assign(body.begin(), body.end());
    job->on_loaded = &session::create_loaded;
    return begin_load(std::move(before), std::move(job));
  }
  before = {};
  return create(request, std::move(previous));
}

status session::check_create(const create_request &request) {
  bool const named =
      is_valid_name(request.name) && (request.set.empty() || is_valid_name(request.set));
  if (!named || (request.flags & ~(flags_of_clients | flag_exclusive | flag_keep)) != 0)
    return status::invalid;
  return request.size > object_size_max ? status::too_big : status::ok;
}

// Create an object with the bytes of the previous one; null: without bytes. In the latter case no
// reference to the previous object is left, so that it can be evicted for the new one.
status session::create(const create_request &request, object_ref previous) {
  auto job = std::make_unique<byte_job>();
  job->copy_size = previous != nullptr ? previous->metadata.size : 0;
  job->source = std::move(previous);
  auto new_object = service_.objects.create_object(
      namespace_id_, std::max(request.size, job->copy_size), request.flags, allocation_mode());
  if (!new_object.ok())
    return note_lack(new_object.error());
  job->own_handle = {new_object.value(), true, request.name, request.set, request.flags, {}};
  job->on_complete = &session::finish_create;
  if (job->source == nullptr)
    return finish_create(*job);
  job->target = &job->own_handle;
  TND_ASSERT(job_ == nullptr);
  job_ = std::move(job);
  return status::ok;
}

status session::on_open(std::span<const std::byte> body) {
  open_request request;
  TND_TRY(decode(body, request));
  auto match = service_.objects.open_bytes(namespace_id_, request.name, request.version);
  if (!match.ok())
    return match.error();
  catalog::opened_object &opened = match.value();
  TND_TRY(require_intact(*opened.object));
  if (opened.object->striped != nullptr)
    TND_TRY(require_striping());
  if (opened.reader != nullptr && shares_memory_) {
    TND_TRY(require_free_handle());
    auto job = std::make_unique<byte_job>();
    job->own_handle.name = request.name;
    job->on_loaded = &session::open_loaded;
    return begin_load(std::move(opened), std::move(job));
  }
  handle added{std::move(opened.object), false, request.name, {}, 0, {}};
  added.reader = std::move(opened.reader);
  auto id = add_handle(std::move(added));
  if (!id.ok())
    return id.error();
  send_object(id.value(), handles_[id.value()]);
  return status::ok;
}

status session::on_resize(std::span<const std::byte> body) {
  resize_request request;
  TND_TRY(decode(body, request));
  auto entry = find_handle(request.handle);
  if (!entry.ok())
    return entry.error();
  if (!entry.value()->is_writer)
    return status::bad_file;
  if (request.size > object_size_max)
    return status::too_big;
  object &target = *entry.value()->object;
  if (target.striped != nullptr) {
    TND_TRY(service_.objects.resize_striped(target, request.size));
    send_object(request.handle, *entry.value());
    return status::ok;
  }
  if (request.size < target.metadata.size) {
    target.metadata.size = request.size;
    entry.value()->written.truncate(request.size);
  } else {
    TND_TRY(note_lack(service_.objects.grow(target, request.size, allocation_mode())));
  }
  send_object(request.handle, *entry.value());
  return status::ok;
}

status session::on_write(std::span<const std::byte> body) {
  ranges_request request;
  TND_TRY(decode(body, request));
  auto entry = find_handle(request.handle);
  if (!entry.ok())
    return entry.error();
  if (!entry.value()->is_writer)
    return status::bad_file;
  uint64_t total = 0;
  auto end = end_of_ranges(request.ranges, total);
  if (!end.ok())
    return end.error();
  if (total != head_.data_size)
    return status::protocol;
  object &target = *entry.value()->object;
  if (end.value() > target.metadata.size)
    TND_TRY(note_lack(service_.objects.grow(target, end.value(), allocation_mode())));
  TND_TRY(require_intact(target));
  std::vector<iovec> parts;
  for (const range &interval : request.ranges)
    target.append_parts(interval.offset, interval.size, parts);
  input_.set_destination(std::move(parts));
  write_handle_ = request.handle;
  write_ranges_ = std::move(request.ranges);
  on_data_end_ = &session::finish_write;
  return status::ok;
}

void session::finish_write() {
  handle &target = handles_.at(write_handle_);
  for (const range &interval : write_ranges_)
    target.written.add(interval.offset, interval.size);
  limit_ranges(target);
  if (status const code = require_intact(*target.object); code != status::ok)
    send_error(code);
  else
    send_reply(empty_message{});
}

status session::on_note(std::span<const std::byte> body) {
  ranges_request request;
  TND_TRY(decode(body, request));
  auto entry = find_handle(request.handle);
  uint64_t total = 0;
  auto end = end_of_ranges(request.ranges, total);
  // This request has no reply, so an invalid one ends the connection.
  if (!entry.ok() || !entry.value()->is_writer || !end.ok() ||
      end.value() > entry.value()->object->metadata.size)
    return status::protocol;
  for (const range &interval : request.ranges)
    entry.value()->written.add(interval.offset, interval.size);
  limit_ranges(*entry.value());
  count_written(TND_POOL_PATH_SHARED_MEMORY, total);
  return status::ok;
}

status session::on_read(std::span<const std::byte> body) {
  ranges_request request;
  TND_TRY(decode(body, request));
  auto entry = find_handle(request.handle);
  if (!entry.ok())
    return entry.error();
  auto job = std::make_unique<byte_job>();
  job->target = entry.value();
  job->ranges = std::move(request.ranges);
  job->on_complete = &session::finish_read;
  if (!entry.value()->is_writer)
    return finish_read(*job);
  // Clear the unwritten ranges first, so that the client reads what a commit will make visible.
  job->clears_unwritten = true;
  job_ = std::move(job);
  return status::ok;
}

status session::finish_read(byte_job &job) {
  object_ref const &source = job.target->object;
  std::vector<range> &ranges = job.ranges;
  TND_TRY(require_intact(*source));
  uint64_t total = 0;
  auto end = end_of_ranges(ranges, total);
  if (!end.ok())
    return end.error();
  if (ranges.size() == 1) {
    range &only = ranges[0];
    only.offset = std::min(only.offset, source->metadata.size);
    only.size = std::min(only.size, source->metadata.size - only.offset);
  } else if (end.value() > source->metadata.size) {
    return status::range;
  }
  if (job.target->reader != nullptr) {
    bool const is_whole = ranges.size() == 1 && ranges[0].size == source->metadata.size;
    return begin_cold_read({head_, source, job.target->name},
                           {job.target->reader, std::move(ranges), is_whole});
  }
  std::vector<iovec> parts;
  for (const range &interval : ranges) {
    source->append_parts(interval.offset, interval.size, parts);
    if (parts.size() > reply_part_count_max)
      return status::too_big;
  }
  send_reply(empty_message{}, std::move(parts), source);
  return status::ok;
}

status session::on_close(std::span<const std::byte> body) {
  handle_request request;
  TND_TRY(decode(body, request));
  return handles_.erase(request.handle) == 1 ? status::ok : status::protocol;
}

status session::on_commit(std::span<const std::byte> body) {
  commit_request request;
  TND_TRY(decode(body, request));
  auto entry = find_handle(request.handle);
  if (!entry.ok())
    return entry.error();
  if (!entry.value()->is_writer)
    return status::bad_file;
  if (entry.value()->has_too_many_ranges) {
    return fail(status::too_big,
                "{} was written in too many separate ranges: write it in larger ones",
                entry.value()->name);
  }
  auto job = std::make_unique<byte_job>();
  job->terms = request.terms;
  job->target = entry.value();
  return begin_commit(std::move(job));
}

status session::on_put(std::span<const std::byte> body) {
  put_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_writer());
  uint32_t const flags = request.terms.flags;
  if (!is_valid_name(request.name) ||
      (flags & ~(flags_of_clients | flag_exclusive | commit_flags)) != 0)
    return status::invalid;
  if ((flags & flag_exclusive) != 0 &&
      service_.objects.open(namespace_id_, request.name, 0, false).ok())
    return status::exists;
  service_.objects.check_memory();
  auto new_object =
      service_.objects.create_object(namespace_id_, head_.data_size, flags, allocation_mode());
  if (!new_object.ok())
    return note_lack(new_object.error());
  put_ = std::make_unique<byte_job>();
  put_->terms = request.terms;
  put_->terms.flags &= commit_flags;
  put_->own_handle = {new_object.value(), true, request.name, {}, flags & flag_exclusive, {}};
  put_->target = &put_->own_handle;
  std::vector<iovec> parts;
  new_object.value()->append_parts(0, head_.data_size, parts);
  input_.set_destination(std::move(parts));
  on_data_end_ = &session::finish_put;
  return status::ok;
}

void session::finish_put() {
  TND_ASSERT(put_ != nullptr);
  put_->own_handle.written.add(0, put_->own_handle.object->metadata.size);
  if (status const code = begin_commit(std::move(put_)); code != status::ok)
    send_error(code);
}

status session::on_get(std::span<const std::byte> body) {
  get_request request;
  TND_TRY(decode(body, request));
  auto match = service_.objects.open_bytes(namespace_id_, request.name, 0);
  if (!match.ok())
    return match.error();
  object_ref const source = match.value().object;
  TND_TRY(require_intact(*source));
  if (match.value().reader != nullptr && source->metadata.size <= request.capacity)
    return get_cold(request, std::move(match).value());
  std::vector<iovec> parts;
  if (source->striped != nullptr)
    TND_TRY(require_striping());  // the reply has no data
  else if (source->metadata.size <= request.capacity)
    source->append_parts(0, source->metadata.size, parts);
  send_reply(info_reply{source->client_metadata()}, std::move(parts), source);
  return status::ok;
}

status session::on_stat(std::span<const std::byte> body) {
  open_request request;
  TND_TRY(decode(body, request));
  auto match = service_.objects.open(namespace_id_, request.name, request.version, false);
  if (!match.ok())
    return match.error();
  send_reply(info_reply{match.value()->client_metadata()});
  return status::ok;
}

status session::on_list(std::span<const std::byte> body) {
  list_request request;
  TND_TRY(decode(body, request));
  list_reply reply;
  size_t size = 0;
  service_.objects.list(namespace_id_, request, [&](const std::string &name, const info *metadata) {
    size += name.size() + sizeof(info) + 9;
    reply.more = size > list_size_max;
    if (!reply.more)
      reply.entries.push_back(
          {name, metadata == nullptr ? info{} : *metadata, metadata == nullptr});
    return !reply.more;
  });
  send_reply(reply);
  return status::ok;
}

status session::on_namespaces(std::span<const std::byte> body) {
  namespaces_request request;
  TND_TRY(decode(body, request));
  std::vector<namespace_statistics> namespaces = service_.objects.all_namespaces();
  std::erase_if(namespaces, [&](const namespace_statistics &entry) {
    return entry.name <= request.after ||
           (!request.name_filter.empty() && entry.name != request.name_filter) ||
           !can_see_namespace(entry.name);
  });
  std::sort(namespaces.begin(), namespaces.end(), [](auto const &lhs, auto const &rhs) {
    return lhs.name < rhs.name;
  });
  namespaces_reply reply;
  size_t size = 0;
  for (const namespace_statistics &entry : namespaces) {
    size += entry.name.size() + sizeof(namespace_entry);
    reply.more = size > list_size_max;
    if (reply.more)
      break;
    reply.entries.push_back({entry.name,
                             entry.used,
                             entry.owned,
                             entry.segment_count,
                             entry.object_count,
                             entry.quota});
  }
  send_reply(reply);
  return status::ok;
}

// The callback for a request whose change goes through the journal. The reply is deferred until the
// journal has the change if the client requested that, or if the journal is congested.
journal_callback session::defer_reply(bool wait, const info &metadata) {
  bool const is_written =
      service_.objects.is_durable() && (wait || service_.objects.is_congested());
  return defer_until(is_written || service_.cluster != nullptr, is_written, metadata);
}

journal_callback session::defer_until(bool is_deferred, bool waits_for_disk, const info &metadata) {
  is_deferred_ = is_deferred;
  if (!is_deferred_)
    return {};
  deferred_count_++;
  return {[answers = mailbox_,
           id = id_,
           tag = head_.tag,
           request_kind = head_.kind,
           metadata,
           began_ns = began_ns_](status code) {
            answers->put({id, tag, request_kind, code, metadata, {}, {}, began_ns});
          },
          waits_for_disk};
}

// The journal does not report a change that was refused.
status session::cancel_deferral_on_error(status code) {
  if (code != status::ok && is_deferred_) {
    TND_ASSERT(deferred_count_ > 0);
    deferred_count_--;
  }
  return code;
}

void mailbox::put(deferred_reply answer) {
  {
    lock_guard lock{mutex_};
    replies_.push_back(std::move(answer));
  }
  waker_.wake();
}

std::vector<deferred_reply> mailbox::take() {
  lock_guard lock{mutex_};
  return std::exchange(replies_, {});
}

namespace {

const char *reason_of_failure(kind request) {
  if (request == kind::cluster_drain || request == kind::cluster_erasure)
    return "etcd did not store the setting";
  if (request == kind::fragment_build)
    return "the fragment could not be built";
  return request >= kind::fabric && request <= kind::fabric_proof
             ? "the transfer over the fabric failed"
             : "the journal could not make the change durable";
}

}  // namespace

void session::finish_deferred(const deferred_reply &deferred) {
  if (deferred.request_kind == settled_notice) {
    awaits_settling_ = false;
    return;
  }
  if (deferred.request_kind == read_notice_kind) {
    finish_cold_read(deferred.tag);
    return;
  }
  if (fetch_ && deferred.tag == fetch_->tag && kind(deferred.request_kind) == kind::replica_fetch) {
    finish_fetch(deferred);
    return;
  }
  frame const at_work = head_;  // of a request whose data has not arrived completely
  is_settled_reply_ = true;     // the change that the reply is about
  output_.set_barrier(0);
  TND_ASSERT(deferred_count_ > 0 && deferred.session == id_);
  deferred_count_--;
  head_.tag = deferred.tag;
  head_.kind = deferred.request_kind;
  head_.data_size = 0;
  uint64_t const began_at_work_ns = std::exchange(began_ns_, deferred.began_ns);
  set_last_message(reason_of_failure(kind(deferred.request_kind)));
  status code = deferred.code;
  if (code == status::ok && deferred.hold != nullptr)
    code = require_intact(*deferred.hold);
  finish_fabric_write(deferred.tag, code);
  if (code != status::ok)
    send_error(code);
  else if (deferred.answer != nullptr)
    finish_stripe_check(*deferred.answer);
  else if (kind(deferred.request_kind) == kind::commit || kind(deferred.request_kind) == kind::put)
    send_reply(info_reply{deferred.metadata});
  else
    send_reply(empty_message{});
  is_settled_reply_ = false;
  head_ = at_work;
  began_ns_ = began_at_work_ns;
}

status session::on_rename(std::span<const std::byte> body) {
  rename_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_writer());
  if (!is_valid_name(request.new_name))
    return status::invalid;
  TND_TRY(cancel_deferral_on_error(
      service_.objects.rename(namespace_id_,
                              request.name,
                              request.new_name,
                              request.flags,
                              defer_reply((request.flags & flag_durable) != 0, {}))));
  if (!is_deferred_)
    send_reply(empty_message{});
  return status::ok;
}

status session::on_remove(std::span<const std::byte> body) {
  flags_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_writer());
  TND_TRY(cancel_deferral_on_error(service_.objects.remove(
      namespace_id_, request.name, defer_reply((request.flags & flag_durable) != 0, {}))));
  if (!is_deferred_)
    send_reply(empty_message{});
  return status::ok;
}

status session::on_set_flags(std::span<const std::byte> body) {
  flags_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_writer());
  if ((request.flags & ~flags_of_clients) != 0)
    return status::invalid;
  TND_TRY(cancel_deferral_on_error(service_.objects.set_flags(
      namespace_id_, request.name, request.flags, defer_reply(false, {}))));
  if (!is_deferred_)
    send_reply(empty_message{});
  return status::ok;
}

status session::on_set_commit(std::span<const std::byte> body) {
  set_commit_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_writer());
  bool const durable = (request.flags & flag_durable) != 0;
  if (durable && !service_.objects.is_durable())
    return fail(status::not_supported,
                "this pool is not durable: start the daemon with --backing file or flash");
  TND_TRY(cancel_deferral_on_error(service_.objects.commit_set(
      namespace_id_, request.set, request.count, defer_reply(durable, {}))));
  if (!is_deferred_)
    send_reply(empty_message{});
  return status::ok;
}

status session::on_statistics(std::span<const std::byte> body) {
  empty_message request;
  TND_TRY(decode(body, request));
  auto const of_all = service_.objects.statistics();
  namespace_statistics const of_space =
      has_namespace_ ? service_.objects.statistics_for(namespace_id_) : namespace_statistics{};
  auto const &counters = service_.counters;
  const catalog &objects = service_.objects;
  send_reply(statistics_reply{counters.client_count.load(),
                              objects.stored_capacity(),
                              objects.is_tiered() ? objects.stored_size() : service_.memory.used(),
                              of_all.object_count,
                              of_space.used,
                              of_space.object_count,
                              of_space.quota,
                              counters.written.sum(),
                              counters.read.sum(),
                              of_all.commits,
                              of_all.opens,
                              of_all.evictions,
                              counters.errors.sum(),
                              seams::monotonic_clock().now_ns() - service_.started_ns});
  return status::ok;
}

status session::finish_create(byte_job &job) {
  handle &new_handle = job.own_handle;
  if (job.source != nullptr)
    TND_TRY(require_intact(*job.source));
  if (!new_handle.set.empty())
    TND_TRY(service_.objects.join_set(namespace_id_, new_handle.set, id_));
  auto id = add_handle(std::move(new_handle));
  if (!id.ok())
    return id.error();
  send_object(id.value(), handles_[id.value()]);
  return status::ok;
}

// Bound the memory that the written ranges of uncommitted objects take.
void session::limit_ranges(handle &target) {
  if (target.written.count() <= written_range_count_max || job_ != nullptr)
    return;
  if (shares_memory_ || !fabric_peer_.empty()) {
    size_t range_count = 0;
    for (auto const &[id, open_handle] : handles_)
      range_count += open_handle.written.count();
    if (range_count > unreported_range_count_max) {
      target.has_too_many_ranges = true;
      target.written = {};
    }
    return;
  }
  job_ = std::make_unique<byte_job>();
  job_->target = &target;
  job_->clears_unwritten = true;
}

// Start a commit: clear the unwritten ranges, compute the checksum, bind the name.
status session::begin_commit(std::unique_ptr<byte_job> job) {
  const commit_terms &terms = job->terms;
  if ((terms.flags & ~commit_flags) != 0 || !pool::is_checksum_kind(terms.checksum_kind))
    return status::invalid;
  if ((terms.flags & flag_durable) != 0 && !service_.objects.is_durable()) {
    return fail(status::not_supported,
                "this pool is not durable: start the daemon with --backing file or flash");
  }
  auto const kind = pool::checksum_kind(terms.checksum_kind);
  bool const sums = kind != pool::checksum_kind::none &&
                    (!terms.has_checksum || (terms.flags & flag_verify) != 0);
  job->clears_unwritten = true;
  if (sums)
    job->sum = pool::checksum{kind};
  job->on_complete = sums ? &session::finish_sum : &session::finish_commit;
  TND_ASSERT(job_ == nullptr && job->target != nullptr);
  job_ = std::move(job);
  return status::ok;
}

void session::copy_part(byte_job &job, uint64_t &budget) {
  TND_ASSERT(job.copied_size <= job.copy_size && job.target != nullptr);
  uint64_t const size = std::min(budget, job.copy_size - job.copied_size);
  std::vector<iovec> source_parts, target_parts;
  job.source->append_parts(job.copied_size, size, source_parts);
  job.target->object->append_parts(job.copied_size, size, target_parts);
  size_t k = 0;
  for (iovec part : source_parts) {
    while (part.iov_len > 0) {
      TND_ASSERT(k < target_parts.size());
      size_t const count = std::min(part.iov_len, target_parts[k].iov_len);
      std::memcpy(target_parts[k].iov_base, part.iov_base, count);
      part = {static_cast<std::byte *>(part.iov_base) + count, part.iov_len - count};
      target_parts[k] = {static_cast<std::byte *>(target_parts[k].iov_base) + count,
                         target_parts[k].iov_len - count};
      if (target_parts[k].iov_len == 0)
        k++;
    }
  }
  job.target->written.add(job.copied_size, size);
  job.copied_size += size;
  budget -= size;
}

void session::sum_part(byte_job &job, uint64_t &budget) {
  const object &summed = *job.target->object;
  TND_ASSERT(job.summed_size <= summed.metadata.size);
  uint64_t const size = std::min(budget, summed.metadata.size - job.summed_size);
  std::vector<iovec> parts;
  summed.append_parts(job.summed_size, size, parts);
  for (const iovec &part : parts)
    job.sum.add(part.iov_base, part.iov_len);
  job.summed_size += size;
  budget -= size;
}

// False: the job continues in the session's next turn, or once fabric transfers have completed.
bool session::step_job() {
  TND_ASSERT(job_ != nullptr && job_->target != nullptr);
  byte_job &job = *job_;
  if (is_job_blocked())
    return false;
  status loaded = status::ok;
  if (job.load != nullptr && !advance_load(job, loaded)) {
    auto const failed = std::move(job_);
    send_error(loaded);
    return true;
  }
  uint64_t budget = service_.limits.turn_size, size = job.target->object->metadata.size;
  if (job.source != nullptr)
    copy_part(job, budget);
  if (job.copied_size < job.copy_size)
    return false;
  if (job.clears_unwritten &&
      !job.target->written.clear_unwritten(*job.target->object, size, budget))
    return false;
  bool const sums = job.sum.kind() != pool::checksum_kind::none;
  if (sums)
    sum_part(job, budget);
  if (sums && job.summed_size < size)
    return false;
  auto const done = std::move(job_);
  set_last_message({});
  status const code = done->on_complete != nullptr ? (this->*done->on_complete)(*done) : status::ok;
  if (code != status::ok)
    send_error(code);
  return true;
}

status session::finish_sum(byte_job &job) {
  if (job.terms.has_checksum && job.terms.checksum != job.sum.value()) {
    return fail(status::corrupt,
                "{}: the bytes have checksum {:016x} instead of {:016x}: write them again",
                job.target->name,
                job.sum.value(),
                job.terms.checksum);
  }
  job.terms.checksum = job.sum.value();
  job.terms.has_checksum = 1;
  return finish_commit(job);
}

status session::finish_commit(byte_job &job) {
  handle &target = *job.target;
  object &committed_object = *target.object;
  TND_TRY(require_intact(committed_object));
  if (committed_object.striped != nullptr)
    TND_TRY(service_.objects.complete_striped(committed_object));
  committed_object.metadata.checksum_kind = job.terms.checksum_kind;
  committed_object.metadata.checksum = job.terms.checksum_kind == 0 ? 0 : job.terms.checksum;
  if (!target.set.empty()) {
    TND_TRY(service_.objects.prepare(target.object, target.name, target.set, id_, target.flags));
    target.is_writer = false;
    send_reply(info_reply{committed_object.client_metadata()});
    return status::ok;
  }
  auto committed =
      service_.objects.commit(target.object, target.name, target.flags, [&](const info &metadata) {
        return defer_reply((job.terms.flags & flag_durable) != 0, metadata);
      });
  if (!committed.ok())
    return committed.error();
  target.is_writer = false;
  if (!is_deferred_)
    send_reply(info_reply{committed_object.client_metadata()});
  return status::ok;
}

}  // namespace tanada::poold
