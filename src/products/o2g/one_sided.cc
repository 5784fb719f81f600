// One-sided operations: local requests, and those of peers on local memory.

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "products/o2g/engine_core.hpp"

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::kind;

namespace {

constexpr uint64_t copied_answer_size_max = 16384;          // bytes
constexpr uint64_t answers_size_max = uint64_t{256} << 20;  // bytes of one peer

static_assert(copied_answer_size_max < answers_size_max);

uint8_t flags_of(bool delivery_complete, bool has_data) {
  return uint8_t((delivery_complete ? wire::o2g::wants_ack : 0) |
                 (has_data ? wire::o2g::has_data : 0));
}

iovec part_from(std::span<const std::byte> bytes) {
  return {const_cast<std::byte *>(bytes.data()), bytes.size()};
}

// Whether the sizes of the memory agree, and the operation is defined for the type.
bool is_valid_atomic(const atomic_request &request) {
  bool const fetches = !request.fetched.empty();
  bool const is_read = request.operation == atomic_operation::read;
  uint64_t const size = request.remote.size;
  bool const is_whole = size != 0 && size <= atomic_size_max && size % size_of(request.type) == 0;
  bool const fits = request.operands.size() == (is_read ? 0 : size) &&
                    request.compared.size() == (needs_compared(request.operation) ? size : 0) &&
                    (!fetches || request.fetched.size() == size) && (fetches || !is_read);
  return is_whole && fits && is_supported(request.type, request.operation);
}

envelope atomic_head(const atomic_request &request) {
  bool const fetches = !request.fetched.empty();
  bool const is_acked = request.delivery_complete && !fetches;
  envelope head;
  head.kind = uint8_t(kind::atomic);
  head.flags = uint8_t(flags_of(is_acked, false) | (fetches ? wire::o2g::fetches : 0) |
                       (request.can_delay_ack && is_acked ? wire::o2g::can_batch : 0));
  head.type = uint8_t(request.type);
  head.operation = uint8_t(request.operation);
  head.data = request.remote.size;
  head.size = request.operands.size() + request.compared.size();
  head.tag = request.remote.key;
  head.address = request.remote.address;
  return head;
}

}  // namespace

status engine_core::post_put(const remote_request &request) {
  return post(&engine_core::put, completion_kind::put, request);
}

status engine_core::put(const remote_request &request) {
  uint64_t const size = size_of(request.parts);
  if (request.parts.size() > part_count_max || size != request.remote.size ||
      size > wire::o2g::message_size_max || (request.inject && size > inject_size_max))
    return status::invalid;
  if (has_null_part(request.parts))
    return status::invalid;
  auto const link_result = link_for_request(request.target);
  if (!link_result.ok())
    return link_result.error();
  link &peer_link = *result<link *>{link_result}.value();
  envelope head;
  head.kind = uint8_t(kind::put);
  head.flags = flags_of(request.delivery_complete, request.has_data);
  head.size = size;
  head.tag = request.remote.key;
  head.data = request.data;
  head.address = request.remote.address;
  operation *const op =
      make_request(head, request.parts, request.inject, request.delivery_complete);
  if (op == nullptr)
    return status::no_memory;
  op->done = {.kind = completion_kind::put,
              .context = request.context,
              .owner = request.owner,
              .size = size};
  op->errors_only = request.errors_only;
  ack_batcher_.record_send(clock_.now_ns());
  send_operation(peer_link, op, request.more);
  return status::ok;
}

status engine_core::post_get(const remote_request &request) {
  return post(&engine_core::get, completion_kind::get, request);
}

status engine_core::get(const remote_request &request) {
  uint64_t const size = size_of(request.parts);
  if (request.parts.size() > part_count_max || size != request.remote.size ||
      size > wire::o2g::message_size_max)
    return status::invalid;
  if (has_null_part(request.parts))
    return status::invalid;
  auto const link_result = link_for_request(request.target);
  if (!link_result.ok())
    return link_result.error();
  link &peer_link = *result<link *>{link_result}.value();
  envelope head;
  head.kind = uint8_t(kind::get);
  head.size = size;
  head.tag = request.remote.key;
  head.address = request.remote.address;
  operation *const op = make_request(head, {}, false, true);
  if (op == nullptr)
    return status::no_memory;
  op->reply_parts = scatter{request.parts};
  op->done = {.kind = completion_kind::get,
              .context = request.context,
              .owner = request.owner,
              .size = size};
  op->errors_only = request.errors_only;
  ack_batcher_.record_send(clock_.now_ns());
  send_operation(peer_link, op);
  return status::ok;
}

status engine_core::post_atomic(const atomic_request &request) {
  bool const fetches = !request.fetched.empty();
  return post(
      &engine_core::apply, fetches ? completion_kind::fetch : completion_kind::atomic, request);
}

status engine_core::apply(const atomic_request &request) {
  std::array<iovec, 3> const memory{
      part_from(request.operands), part_from(request.compared), part_from(request.fetched)};
  if (!is_valid_atomic(request) || has_null_part(memory))
    return status::invalid;
  auto const link_result = link_for_request(request.target, request.is_continuation);
  if (!link_result.ok())
    return link_result.error();
  link &peer_link = *result<link *>{link_result}.value();
  bool const fetches = !request.fetched.empty();
  auto const body = std::span{memory}.first(2);
  operation *const op = make_request(
      atomic_head(request), body, request.inject, fetches || request.delivery_complete);
  if (op == nullptr)
    return status::no_memory;
  op->done = {.kind = fetches ? completion_kind::fetch : completion_kind::atomic,
              .context = request.context,
              .owner = request.owner,
              .size = request.remote.size};
  op->errors_only = request.errors_only;
  if (fetches)
    op->reply_parts = scatter{request.fetched.data(), request.fetched.size()};
  ack_batcher_.record_send(clock_.now_ns());
  send_operation(peer_link, op);
  return status::ok;
}

void engine_core::acknowledge(link &peer_link, uint64_t id, status code, bool can_delay) noexcept {
  envelope head;
  head.kind = uint8_t(kind::ack);
  head.id = id;
  head.data = uint64_t(uint32_t(int(code)));
  operation *const op = make_operation(head, {});
  if (op == nullptr)
    return set_out_of_memory();
  op->is_internal = true;
  if (!can_delay || !delay_ack(peer_link, op))
    queue_reply(peer_link, op);
}

void engine_core::count_reply(link &peer_link, operation *op) noexcept {
  TND_ASSERT(op->is_internal && !op->is_queued && op->reply_size == 0);
  op->reply_size = sizeof *op + (op->copy != nullptr ? op->body_size : 0);
  peer_link.replies_size += op->reply_size;
}

// Queues a reply. A peer that sends requests without reading the replies is dropped.
void engine_core::queue_reply(link &peer_link, operation *op) noexcept {
  count_reply(peer_link, op);
  if (op->body_size != 0)
    has_reply_data_ = true;
  send_operation(peer_link, op, is_driving_);
  if (peer_link.replies_size > answers_size_max)
    drop_on_violation(peer_link, "sends requests without reading their replies");
}

// Refuses a peer's access to local memory.
void engine_core::deny(link &peer_link, status code) {
  peer_link.access_status = code;
  log_peer_error([&] {
    log(log_level::warning,
        "o2g: denied {} access to {} bytes at {:#x} with key {:#x}: {}",
        to_text(peers_[peer_link.peer].address),
        peer_link.head.size,
        peer_link.head.address,
        peer_link.head.tag,
        code == status::no_entry ? "no region has this key"
        : code == status::access ? "the region does not permit it"
                                 : "the range is not within the region");
  });
}

void engine_core::begin_put(link &peer_link) {
  peer_link.access_status = status::ok;
  auto range = memory_.resolve(
      peer_link.head.tag, peer_link.head.address, peer_link.head.size, {.remote_write = true});
  if (!range.ok())
    return deny(peer_link, range.error());
  peer_link.range = std::move(range).value();
  peer_link.destination = link::body_destination::region;
  peer_link.body_parts = scatter{peer_link.range.addr, peer_link.head.size};
}

// Reports a peer's access to local memory.
void engine_core::report_remote(const link &peer_link, completion_kind event_kind, uint64_t size) {
  bool const has_data =
      kind(peer_link.head.kind) == kind::put && (peer_link.head.flags & wire::o2g::has_data) != 0;
  if (!has_data && !options_.reports_remote)
    return;
  completion done;
  done.kind = event_kind;
  done.size = size;
  done.tag = peer_link.head.tag;
  done.has_data = has_data;
  if (has_data)
    done.data = peer_link.head.data;
  done.source = peer_link.peer;
  complete(done);
}

void engine_core::end_put(link &peer_link) {
  peer_link.range = {};
  peer_link.destination = link::body_destination::discard;
  if (peer_link.access_status == status::ok)
    report_remote(peer_link, completion_kind::remote_put, peer_link.head.size);
  if ((peer_link.head.flags & wire::o2g::wants_ack) != 0)
    acknowledge(peer_link,
                peer_link.head.id,
                peer_link.access_status,
                (peer_link.head.flags & wire::o2g::can_batch) != 0);
}

// Replies to a get. Small replies are copied; large ones hold a use of the region until sent.
void engine_core::begin_get(link &peer_link) {
  peer_link.access_status = status::ok;
  auto range = memory_.resolve(
      peer_link.head.tag, peer_link.head.address, peer_link.head.size, {.remote_read = true});
  if (!range.ok()) {
    deny(peer_link, range.error());
    return acknowledge(peer_link, peer_link.head.id, peer_link.access_status);
  }
  operation *const op = make_get_reply(peer_link, std::move(range).value());
  if (op == nullptr)
    return set_out_of_memory();
  bool const is_open = bool(op->source_use);
  bool const is_ready = is_open && (op->body_size > copied_answer_size_max || copy_body(*op));
  if (!is_ready) {
    operations_.release(op);
    return acknowledge(peer_link, peer_link.head.id, is_open ? status::no_memory : status::fault);
  }
  if (op->copy != nullptr)
    op->source_use = {};
  report_remote(peer_link, completion_kind::remote_get, peer_link.head.size);
  queue_reply(peer_link, op);
}

// Creates the reply to a get, which holds a use of its region if the region is open. Null: no
// memory.
operation *engine_core::make_get_reply(const link &peer_link, const region_range &source) noexcept {
  envelope head;
  head.kind = uint8_t(kind::get_reply);
  head.id = peer_link.head.id;
  head.size = peer_link.head.size;
  iovec const body{source.addr, peer_link.head.size};
  operation *const op = make_operation(head, {&body, 1});
  if (op == nullptr)
    return nullptr;
  op->is_internal = true;
  op->source_use = region_use{source.parent};
  return op;
}

// Drops the connections that use closed regions: a put that does not complete, or a reply that the
// peer does not read.
void engine_core::drop_closed() {
  lock_guard const lock{mutex_};
  for (size_t i = 0; i < links_.size(); i++) {
    link &peer_link = *links_[i];
    bool uses_closed = peer_link.region_in_use && peer_link.range.parent->is_closed();
    for (operation *op = peer_link.first; op != nullptr && !uses_closed; op = op->next)
      uses_closed = op->source_use.is_closed();
    if (!uses_closed)
      continue;
    log_peer_error([&] {
      log(log_level::warning,
          "o2g: {} still accesses memory that is being unregistered; dropping the connection",
          to_text(set_->peer(peer_link.stream)));
    });
    drop_link(peer_link, status::fault);
  }
  fail_if_out_of_memory();
}

void engine_core::begin_reply(link &peer_link) {
  operation *const op = awaiting_reply_.find(peer_link.head.id);
  bool const is_got = kind(peer_link.head.kind) == kind::get_reply;
  bool const fits = op != nullptr && op->peer_link == &peer_link && !op->is_queued &&
                    op->reply_parts.remaining_size() == peer_link.head.size &&
                    op->head.kind == uint8_t(is_got ? kind::get : kind::atomic);
  if (!fits)
    return drop_on_violation(peer_link, "sent a reply that was not requested");
  TND_ASSERT(peer_link.replied_operation == nullptr);
  awaiting_reply_.remove(peer_link.head.id);
  op->id = 0;
  peer_link.replied_operation = op;
  peer_link.destination = link::body_destination::reply;
  peer_link.body_parts = op->reply_parts;
}

void engine_core::end_reply(link &peer_link) {
  operation *const op = peer_link.replied_operation;
  peer_link.replied_operation = nullptr;
  peer_link.destination = link::body_destination::discard;
  if (op != nullptr)
    finish(op, status::ok);
}

void engine_core::begin_atomic(link &peer_link) {
  peer_link.access_status = status::ok;
  auto const type = atomic_type(peer_link.head.type);
  auto const operation = atomic_operation(peer_link.head.operation);
  uint64_t const size = peer_link.head.data;
  bool const known = peer_link.head.type < atomic_type_count &&
                     peer_link.head.operation < atomic_operation_count &&
                     is_supported(type, operation);
  uint64_t const operand_size = operation == atomic_operation::read ? 0
                                : needs_compared(operation)         ? 2 * size
                                                                    : size;
  if (!known || size == 0 || size > atomic_size_max || size % size_of(type) != 0 ||
      peer_link.head.size != operand_size)
    return drop_on_violation(peer_link, "sent an invalid atomic");
  peer_link.control_body.resize(peer_link.head.size);
  peer_link.body_parts = scatter{peer_link.control_body.data(), peer_link.control_body.size()};
  peer_link.destination = link::body_destination::control;
}

void engine_core::end_atomic(link &peer_link) {
  bool const fetches = (peer_link.head.flags & wire::o2g::fetches) != 0;
  peer_link.destination = link::body_destination::discard;
  operation *const reply = fetches ? make_fetch_reply(peer_link) : nullptr;
  if (fetches && reply == nullptr)
    return set_out_of_memory();
  uint64_t const size = peer_link.head.data;
  status const code = apply_atomic(
      peer_link, fetches ? std::span{reply->copy.get(), size} : std::span<std::byte>{});
  if (code == status::ok)
    report_remote(
        peer_link, fetches ? completion_kind::remote_get : completion_kind::remote_put, size);
  if (fetches && code == status::ok)
    return queue_reply(peer_link, reply);
  if (reply != nullptr)
    operations_.release(reply);
  if (fetches || (peer_link.head.flags & wire::o2g::wants_ack) != 0)
    acknowledge(
        peer_link, peer_link.head.id, code, (peer_link.head.flags & wire::o2g::can_batch) != 0);
}

// Creates the reply to a fetching atomic, with memory for the previous values. Null: no memory.
operation *engine_core::make_fetch_reply(const link &peer_link) noexcept {
  uint64_t const size = peer_link.head.data;
  envelope head;
  head.kind = uint8_t(kind::fetch_reply);
  head.id = peer_link.head.id;
  head.size = size;
  operation *const reply = make_operation(head, {});
  if (reply == nullptr)
    return nullptr;
  reply->is_internal = true;
  reply->copy.reset(new (std::nothrow) std::byte[size]);
  if (reply->copy == nullptr) {
    operations_.release(reply);
    return nullptr;
  }
  reply->parts[0] = {reply->copy.get(), size};
  reply->part_count = 1;
  reply->body_size = size;
  return reply;
}

// Carries out a peer's atomic, whose operands have been received. `fetched`: memory for the
// previous values; empty: not fetching.
status engine_core::apply_atomic(link &peer_link, std::span<std::byte> fetched) {
  auto const operation = atomic_operation(peer_link.head.operation);
  bool const is_read = operation == atomic_operation::read;
  uint64_t const size = peer_link.head.data;
  auto range = memory_.resolve(peer_link.head.tag,
                               peer_link.head.address,
                               size,
                               {.remote_read = !fetched.empty(), .remote_write = !is_read});
  if (!range.ok()) {
    deny(peer_link, range.error());
    return peer_link.access_status;
  }
  region_range const target = std::move(range).value();
  std::span<const std::byte> const body{peer_link.control_body};
  size_t const operand_size = is_read ? 0 : size;
  size_t const compared_size = needs_compared(operation) ? size : 0;
  TND_ASSERT(body.size() == operand_size + compared_size);
  atomic_arguments const arguments{atomic_type(peer_link.head.type),
                                   operation,
                                   body.first(operand_size),
                                   body.subspan(operand_size),
                                   fetched};
  bool const is_open = target.parent->begin_use();
  peer_link.access_status =
      is_open ? atomic_apply(arguments, target.addr, size / size_of(arguments.type))
              : status::fault;
  if (is_open)
    target.parent->end_use();
  return peer_link.access_status;
}

}  // namespace tanada::o2g
