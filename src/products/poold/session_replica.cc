// A session of a cluster: serving only while this server is the namespace's primary, and the
// requests of other servers.
#include <atomic>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/checked.hpp"
#include "core/base/log.hpp"
#include "core/base/message.hpp"
#include "products/poold/cluster/backup.hpp"
#include "products/poold/cluster/map.hpp"
#include "products/poold/session.hpp"

namespace tanada::poold {

using namespace wire::pool;
using wire::decode;

namespace {

constexpr size_t replica_list_size_max = body_size_max - 2 * name_size_max - 1024;
constexpr size_t group_count_max = 1 << 20;  // changes that take effect together

change change_of(const replica_apply_request &request) {
  change described;
  described.type = change::kind(request.type);
  described.namespace_name = request.namespace_name;
  described.name = request.name;
  described.old_name = request.old_name;
  described.flags = request.flags;
  described.is_replica = true;
  return described;
}

// Whether the parts have exactly the bytes of the object.
bool is_fetchable(const replica_fetch_request &request) {
  uint64_t const size = request.change.object_info.size;
  if (request.parts.empty() || request.parts.size() > exposed_part_count_max ||
      size > object_size_max)
    return false;
  uint64_t total = 0;
  for (const exposed_part &part : request.parts) {
    if (part.size == 0 || !range_fits(part.offset, part.size, part.region_size) ||
        !range_fits(total, part.size, size))
      return false;
    total += part.size;
  }
  return total == size;
}

std::vector<std::string> names_of(const std::vector<change> &changes) {
  std::vector<std::string> names;
  for (const change &described : changes) {
    names.push_back(backup_name(described.namespace_name, described.name));
    if (!described.old_name.empty())
      names.push_back(backup_name(described.namespace_name, described.old_name));
  }
  return names;
}

}  // namespace

session::replica_group::~replica_group() {
  changes.clear();  // before their namespace
  objects.close_namespace(namespace_id, true, 0);
}

// Replies must not be sent once another server may be the primary.
bool session::is_served() {
  if (service_.cluster == nullptr || stage_ != stage::ready || !has_namespace_)
    return true;
  bool const is_primary =
      service_.cluster->may_reply(partition_) && service_.cluster->term(partition_) == term_;
  return is_primary || (reads_backup_ && service_.cluster->may_reply_as_backup(partition_));
}

// Before the hello: the connection may be to any server that has a copy, and reads only.
status session::on_read_backup(std::span<const std::byte> body) {
  empty_message request;
  TND_TRY(decode(body, request));
  reads_backup_ = true;
  send_reply(empty_message{});
  return status::ok;
}

// The name that the request reads; empty: all of the namespace. not_supported: it does not only
// read. Handles are of objects that do not change any more.
result<std::string> session::name_to_read(const frame &head, std::span<const std::byte> body) {
  get_request get;
  open_request open;
  switch (kind(head.kind)) {
    case kind::get:
      TND_TRY(decode(body, get));
      return get.name;
    case kind::open:
    case kind::stat:
      TND_TRY(decode(body, open));
      return open.name;
    case kind::list:
      return std::string{};
    default:
      return fail(status::not_supported, "the connection is only for reads");
  }
}

// The server is not the primary, but has a copy.
status session::dispatch_as_backup(const frame &head, std::span<const std::byte> body) {
  bool const uses_handle = kind(head.kind) == kind::read || kind(head.kind) == kind::close;
  if (uses_handle)
    return handle_request_of(head, body);
  auto const name = name_to_read(head, body);
  if (!name.ok())
    return name.error() == status::not_supported ? status::stale : name.error();
  std::string const place = name.value().empty() ? "" : backup_name(namespace_name_, name.value());
  return service_.cluster->read_as_backup(
      partition_, place, [&] { return handle_request_of(head, body); });
}

uint64_t session::settled_position() const {
  return service_.cluster == nullptr || !has_namespace_
             ? ~uint64_t{0}
             : service_.cluster->settled_position(partition_);
}

void session::await_settling() {
  if (std::exchange(awaits_settling_, true))
    return;
  service_.cluster->when_settled(
      partition_, output_.first_barrier(), [answers = mailbox_, id = id_] {
        answers->put({id, 0, settled_notice, status::ok, {}});
      });
}

status session::locate(std::span<const std::byte> body) {
  locate_request request;
  TND_TRY(decode(body, request));
  send_reply(service_.cluster->locate(request.namespace_name));
  return status::ok;
}

status session::on_locate(std::span<const std::byte> body) {
  return service_.cluster == nullptr ? status::protocol : locate(body);
}

// Commands of the command line try these requests at any pool, so a refusal is not logged.
status session::require_cluster() {
  message_silence const silence;
  return service_.cluster != nullptr
             ? status::ok
             : fail(status::not_supported, "this pool is one server: it belongs to no cluster");
}

status session::on_cluster_status(std::span<const std::byte> body) {
  empty_message request;
  TND_TRY(decode(body, request));
  TND_TRY(require_cluster());
  cluster_status_reply const reply = service_.cluster->describe();
  if (reply.epoch == 0)
    return fail(status::again, "the server has not joined its cluster yet");
  send_reply(reply);
  return status::ok;
}

status session::require_operator() {
  TND_TRY(require_cluster());
  TND_TRY(require_writer());
  if (!keys_->empty() && !key_->allows_all())
    return fail(status::access, "key {} is not valid for all namespaces", key_id_);
  return status::ok;
}

status session::on_cluster_remove(std::span<const std::byte> body) {
  cluster_remove_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_operator());
  journal_callback const done = defer_until(true, false, {});
  return cancel_deferral_on_error(service_.cluster->remove_server(
      request.server, request.is_forced != 0, [done](status code) { done(code); }));
}

status session::on_cluster_clear(std::span<const std::byte> body) {
  empty_message request;
  TND_TRY(decode(body, request));
  TND_TRY(require_operator());
  journal_callback const done = defer_until(true, false, {});
  service_.cluster->clear_losses([done](status code) { done(code); });
  return status::ok;
}

status session::on_cluster_drain(std::span<const std::byte> body) {
  cluster_drain_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_operator());
  journal_callback const done = defer_until(true, false, {});
  return cancel_deferral_on_error(service_.cluster->set_draining(
      request.server, request.is_draining != 0, [done](status code) { done(code); }));
}

// Only another server of the cluster may send these requests: over a connection without a
// namespace, and with a key for all of them if the pool has keys.
status session::require_peer(const replica_request &request) {
  if (service_.cluster == nullptr || has_namespace_)
    return fail(status::invalid, "this pool belongs to no cluster");
  TND_TRY(require_writer());
  if (!keys_->empty() && !key_->allows_all())
    return fail(status::access, "key {} is not valid for all namespaces", key_id_);
  return service_.cluster->check_replica(request);
}

status session::on_replica_begin(std::span<const std::byte> body) {
  replica_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_peer(request));
  replicas_.reset();
  service_.cluster->begin_copy(request);
  send_reply(empty_message{});
  return status::ok;
}

status session::on_replica_list(std::span<const std::byte> body) {
  replica_list_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_peer(request.place));
  replica_list_reply reply;
  size_t size = 0;
  reply.more = service_.objects.visit_objects(
      [&](const std::string &name) { return partition_of(name) == request.place.partition; },
      {request.after_namespace, request.after_name},
      SIZE_MAX,
      [&](const catalog::object_place &place, const object_ref &object) {
        size += place.namespace_name.size() + place.name.size() + 16;
        if (size > replica_list_size_max)
          return false;
        reply.entries.push_back({place.namespace_name,
                                 place.name,
                                 object->is_damaged ? 0 : object->metadata.version,
                                 object->flags.load() & flags_of_objects});
        return true;
      });
  send_reply(reply);
  return status::ok;
}

status session::on_replica_apply(std::span<const std::byte> body) {
  replica_apply_request request;
  TND_TRY(decode(body, request));
  TND_TRY(begin_replica(request));
  if (change::kind(request.type) == change::kind::put)
    return end_replica(request, receive_replica(request));
  if (head_.data_size != 0)
    return status::protocol;
  replicas_->changes.push_back(change_of(request));
  on_data_end_ = &session::finish_replica;
  return status::ok;
}

// A put whose bytes are in memory of the peer.
status session::on_replica_fetch(std::span<const std::byte> body) {
  replica_fetch_request request;
  TND_TRY(decode(body, request));
  bool const is_valid = change::kind(request.change.type) == change::kind::put &&
                        head_.data_size == 0 && is_fetchable(request);
  if (!is_valid)
    return status::protocol;
  if (fabric_claim_ != claim::proven)
    return fail(status::access, "the server has not proven that it owns the fabric address");
  TND_TRY(begin_replica(request.change));
  return end_replica(request.change, fetch_replica(request));
}

// Check the change, and let it join those that take effect together.
status session::begin_replica(const replica_apply_request &request) {
  TND_TRY(require_peer(request.place));
  bool const is_valid = is_valid_name(request.namespace_name) && is_valid_name(request.name) &&
                        partition_of(request.namespace_name) == request.place.partition &&
                        request.type <= uint8_t(change::kind::set_flags);
  if (!is_valid)
    return status::protocol;
  if (replicas_ == nullptr) {
    replicas_.reset(new replica_group{service_.objects,
                                      service_.objects.hold_namespace(request.namespace_name),
                                      request.place,
                                      request.namespace_name,
                                      {}});
  }
  if (replicas_->namespace_name != request.namespace_name ||
      replicas_->changes.size() >= group_count_max)
    return status::protocol;
  replicas_->is_complete = request.is_last != 0;
  replicas_->wants_disk = request.wants_disk != 0;
  replicas_->position = request.position;
  replicas_->settled = request.settled;
  return status::ok;
}

// Passes the status of a put on. The copy lacks a change that has failed, unless it is repeated.
status session::end_replica(const replica_apply_request &request, status code) {
  if (code != status::ok && !lacks_memory_) {
    replicas_.reset();
    service_.cluster->begin_copy(request.place);
  }
  return code;
}

// Allocate the object's memory. Quotas are the primary's.
result<change> session::create_replica(const replica_apply_request &request) {
  TND_ASSERT(replicas_ != nullptr);
  auto created = service_.objects.create_restored(replicas_->namespace_id,
                                                  request.object_info.size,
                                                  request.flags & flags_of_objects,
                                                  allocation_mode());
  if (!created.ok())
    return note_lack(created.error());
  change put = change_of(request);
  put.object = std::move(created).value();
  put.object->metadata = request.object_info;
  return put;
}

status session::receive_replica(const replica_apply_request &request) {
  if (request.object_info.size != head_.data_size || head_.data_size > object_size_max)
    return status::protocol;
  auto put = create_replica(request);
  if (!put.ok())
    return put.error();
  std::vector<iovec> parts;
  put.value().object->append_parts(0, head_.data_size, parts);
  input_.set_destination(std::move(parts));
  replicas_->changes.push_back(std::move(put).value());
  on_data_end_ = &session::finish_replica;
  return status::ok;
}

namespace {

// The transfers of one object, of which the last one reports to the session.
struct fetch_progress {
  deferred_reply answer;  // with the object, which must not be freed by the mover's thread
  std::shared_ptr<mailbox> answers;
  std::atomic<status> code = status::ok;
  std::atomic<uint32_t> remaining_count = 1;  // one of the session, until it has submitted all

  void end(status ended) {
    if (ended != status::ok)
      code.store(ended);
    if (remaining_count.fetch_sub(1) != 1)
      return;
    answer.code = code.load();
    answers->put(std::move(answer));
  }
};

// A read of one part into the object from `offset` on. It counts as remaining.
transfer make_read(const exposed_part &part,
                   uint64_t offset,
                   const std::shared_ptr<fetch_progress> &progress) {
  transfer read;
  read.remote = {part.base, part.key, part.region_size};
  read.offset = part.offset;
  progress->answer.hold->append_parts(offset, part.size, read.parts);
  progress->remaining_count.fetch_add(1);
  read.callback = [progress](status code) {
    progress->end(code);
  };
  return read;
}

}  // namespace

// Read the object's bytes over the fabric. The session parses nothing until they are there, because
// changes take effect in order.
status session::fetch_replica(const replica_fetch_request &request) {
  TND_ASSERT(!fetch_ && service_.fabric != nullptr && !fabric_peer_.empty());
  auto put = create_replica(request.change);
  if (!put.ok())
    return put.error();
  auto const progress = std::make_shared<fetch_progress>();
  progress->answer = {id_, head_.tag, head_.kind, status::ok, {}, put.value().object};
  progress->answers = mailbox_;
  uint64_t offset = 0;
  for (const exposed_part &part : request.parts) {
    transfer read = make_read(part, offset, progress);
    read.peer = fabric_peer_;
    read.timeout_ns = service_.limits.stall_ns;
    offset += part.size;
    if (service_.fabric->submit(std::move(read)))
      continue;
    if (offset == part.size) {
      lacks_memory_ = may_wait_;  // nothing is under way: repeat the request
      return status::busy;
    }
    progress->end(status::busy);
    break;
  }
  replicas_->changes.push_back(std::move(put).value());
  fetch_ = {head_.tag, offset, request.change.place};
  deferred_count_++;
  progress->end(status::ok);
  return status::ok;
}

void session::finish_fetch(const deferred_reply &fetched) {
  TND_ASSERT(fetch_ && replicas_ != nullptr && deferred_count_ > 0);
  replica_fetch const done = *std::exchange(fetch_, std::nullopt);
  deferred_count_--;
  status const code =
      fetched.code == status::ok ? require_intact(*fetched.hold) : status::peer_lost;
  if (code == status::ok) {
    count_written(fabric_path(), done.size);
    finish_replica();
    return;
  }
  replicas_.reset();
  service_.cluster->begin_copy(done.place);
  if (code == status::peer_lost)
    set_last_message("the transfer over the fabric failed");
  send_error(code);
}

// The copy is not good for reads once the log has refused a change, because the primary gives it
// up.
journal_callback session::defer_replica(const replica_request &place) {
  return {[done = defer_until(true, true, {}), gate = service_.cluster, place](status code) {
    if (code != status::ok)
      gate->begin_copy(place);
    done(code);
  }};
}

void session::finish_replica() {
  TND_ASSERT(replicas_ != nullptr);
  set_last_message({});
  is_deferred_ = false;
  if (!replicas_->is_complete) {
    send_reply(empty_message{});
    return;
  }
  auto const group = std::exchange(replicas_, nullptr);
  bool const waits = service_.objects.is_durable() && group->wants_disk;
  service_.cluster->change_copy(
      {group->place, group->position}, group->settled, names_of(group->changes));
  status const code = cancel_deferral_on_error(service_.objects.apply(
      group->namespace_id,
      [&] { return service_.cluster->check_replica(group->place); },
      std::move(group->changes),
      waits ? defer_replica(group->place) : journal_callback{}));
  if (code != status::ok) {
    service_.cluster->begin_copy(group->place);
    send_error(code);
  } else if (!is_deferred_) {
    send_reply(empty_message{});
  }
}

status session::on_replica_mark(std::span<const std::byte> body) {
  replica_position request;
  TND_TRY(decode(body, request));
  TND_TRY(require_peer(request.place));
  if (replicas_ != nullptr)
    return status::protocol;
  TND_TRY(service_.cluster->check_log());
  service_.cluster->mark_copy(request);
  send_reply(empty_message{});
  return status::ok;
}

// This request has no reply.
status session::on_replica_settled(std::span<const std::byte> body) {
  replica_position request;
  TND_TRY(decode(body, request));
  if (require_peer(request.place) == status::ok)
    service_.cluster->settle_copy(request);
  return status::ok;
}

}  // namespace tanada::poold
