// Received messages, replies and ACKs.

#include <tanada/status.h>

#include <new>

#include "core/base/assert.hpp"
#include "core/base/bounded_text.hpp"
#include "core/base/log.hpp"
#include "products/o2g/engine_core.hpp"

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::kind;

namespace {

completion receive_completion(const receive &receiver, const incoming &info, status code) {
  TND_ASSERT(info.accepted_size <= info.size);
  completion done = receiver.done;
  done.kind = completion_kind::receive;
  done.tagged = receiver.tagged;
  done.size = info.accepted_size;
  done.truncated_size = info.size - info.accepted_size;
  done.code = code == status::ok && done.truncated_size != 0 ? status::overflow : code;
  done.tag = info.tag;
  done.data = info.data;
  done.has_data = (info.flags & wire::o2g::has_data) != 0;
  done.source = info.source;
  return done;
}

}  // namespace

void engine_core::dispatch_envelope(link &peer_link) {
  switch (kind(peer_link.head.kind)) {
    case kind::hello:
    case kind::welcome:
    case kind::refuse:
      peer_link.control_body.resize(peer_link.head.size);
      peer_link.body_parts = scatter{peer_link.control_body.data(), peer_link.control_body.size()};
      peer_link.destination = link::body_destination::control;
      return;
    case kind::message:
      return begin_message(peer_link, false);
    case kind::announce:
      return begin_message(peer_link, true);
    case kind::pull:
      return answer_pull(peer_link);
    case kind::body:
      return begin_pulled_body(peer_link);
    case kind::put:
      return begin_put(peer_link);
    case kind::get:
      return begin_get(peer_link);
    case kind::get_reply:
    case kind::fetch_reply:
      return begin_reply(peer_link);
    case kind::atomic:
      return begin_atomic(peer_link);
    case kind::ack:
      return handle_ack(peer_link);
    case kind::credit:
      peer_link.credit_size = std::max(peer_link.credit_size, peer_link.head.data);
      return;
    case kind::goodbye:
      peer_link.received_goodbye = true;
      return;
    case kind::failure:
      return log_peer_failure(peer_link);
  }
}

// The body of an envelope is complete, or it has no body.
void engine_core::end_body(link &peer_link) {
  if (peer_link.current_phase == link::phase::duplicate)
    return;
  switch (kind(peer_link.head.kind)) {
    case kind::hello:
    case kind::welcome:
    case kind::refuse:
      return handle_handshake(peer_link, kind(peer_link.head.kind));
    case kind::message:
    case kind::body:
      if (peer_link.destination == link::body_destination::unexpected)
        return finish_unexpected(peer_link);
      if (peer_link.destination != link::body_destination::receive)
        return;
      peer_link.destination = link::body_destination::discard;
      return finish_receive(
          peer_link.receive, peer_link.info, peer_link.receive_buffer, status::ok);
    case kind::put:
      return end_put(peer_link);
    case kind::get_reply:
    case kind::fetch_reply:
      return end_reply(peer_link);
    case kind::atomic:
      return end_atomic(peer_link);
    default:
      return;
  }
}

// The peer logs its failure in its own process. This log line explains why local requests fail.
void engine_core::log_peer_failure(const link &peer_link) noexcept {
  envelope const &head = peer_link.head;
  status const code = wire::status_of(int32_t(head.data));
  log_peer_error([&] {
    std::string const address = to_text(peers_[peer_link.peer].address);
    if (code == status::no_space)
      log(log_level::error,
          "o2g: the endpoint {} failed: {} messages were announced to it that no receive matches, "
          "the most that it accepts. Requests of {} to it fail. Post receives earlier, or send "
          "fewer messages ahead of them",
          address,
          head.id,
          name_);
    else
      log(log_level::error,
          "o2g: the endpoint {} failed: {}. Requests of {} to it fail",
          address,
          tnd_status_text(tnd_status(code)),
          name_);
  });
}

void engine_core::begin_message(link &peer_link, bool is_rendezvous) {
  TND_ASSERT(peer_link.peer < peers_.size() && peer_link.message == nullptr);
  envelope const &head = peer_link.head;
  if (!is_rendezvous && !record_eager(peer_link, head.size))
    return drop_on_violation(peer_link, "sent an eager message beyond its credit");
  bool const is_tagged = (head.flags & wire::o2g::tagged) != 0;
  peer_link.info = {is_tagged ? head.tag : 0,
                    head.data,
                    head.size,
                    head.id,
                    0,
                    head.flags,
                    peer_link.peer,
                    peer_link.serial};
  counters_.received_count++;
  for (;;) {
    posted_entry *const entry =
        matcher_for(is_tagged).find_posted({peer_link.info.tag, peer_link.peer});
    if (entry == nullptr)
      break;
    auto *const receiver = static_cast<receive *>(entry);
    if (!claim_posted(*receiver))
      continue;
    if (!reserve_space(*receiver, peer_link.info, peer_link.receive_buffer))
      continue;  // a multi-receive that was full
    if (is_rendezvous)
      return request_body({receiver, peer_link.receive_buffer, &peer_link, peer_link.info});
    peer_link.receive = receiver;
    peer_link.destination = link::body_destination::receive;
    peer_link.body_parts = receive_parts(*receiver, peer_link.info, peer_link.receive_buffer);
    return;
  }
  begin_unexpected(peer_link, is_rendezvous);
}

// No posted receive matches the message: it is received into the unexpected buffer.
void engine_core::begin_unexpected(link &peer_link, bool is_rendezvous) {
  message *const unexpected = buffer_unexpected(peer_link, is_rendezvous);
  if (unexpected == nullptr)
    return;
  bool const is_tagged = (peer_link.head.flags & wire::o2g::tagged) != 0;
  matcher_for(is_tagged).add(*unexpected);
  if (is_rendezvous)
    return;
  peer_link.message = unexpected;
  peer_link.destination = link::body_destination::unexpected;
  peer_link.body_parts = scatter{unexpected->bytes(), peer_link.info.size};
}

// Reserves the receive's memory for a message, and removes the receive from its queue unless it
// accepts more. False: the message does not fit in a multi-receive, which has ended.
bool engine_core::reserve_space(receive &receiver, incoming &info, std::byte *&buffer) {
  TND_ASSERT(receiver.used_size <= receiver.capacity && !receiver.is_closed);
  buffer = receiver.part_count == 0
               ? nullptr
               : static_cast<std::byte *>(receiver.parts[0].iov_base) + receiver.used_size;
  uint64_t const free_size = receiver.capacity - receiver.used_size;
  if (receiver.multi_receive_min != 0 && info.size > free_size && receiver.used_size != 0) {
    end_multi_receive(receiver);
    return false;
  }
  info.accepted_size = std::min(info.size, free_size);
  if (receiver.multi_receive_min == 0) {
    if (receiver.is_queued)
      remove_posted(receiver);
    return true;
  }
  receiver.used_size += info.accepted_size;
  receiver.arriving_count++;
  if (receiver.capacity - receiver.used_size < receiver.multi_receive_min) {
    receiver.is_closed = true;
    if (receiver.is_queued)
      remove_posted(receiver);
  }
  return true;
}

// Ends a multi-receive: it accepts no more messages.
void engine_core::end_multi_receive(receive &receiver) {
  TND_ASSERT(receiver.multi_receive_min != 0 && !receiver.is_closed);
  receiver.is_closed = true;
  if (receiver.is_queued)
    remove_posted(receiver);
  if (receiver.arriving_count != 0)
    return;
  completion done = receiver.done;
  done.kind = completion_kind::buffer;
  complete(done);
  receives_.release(&receiver);
}

scatter engine_core::receive_parts(const receive &receiver,
                                   const incoming &info,
                                   std::byte *buffer) {
  if (receiver.multi_receive_min != 0)
    return {buffer, info.accepted_size};
  return scatter{std::span{receiver.parts.data(), receiver.part_count}};
}

void engine_core::finish_receive(receive *receiver,
                                 const incoming &info,
                                 std::byte *buffer,
                                 status code) noexcept {
  completion done = receive_completion(*receiver, info, code);
  done.buffer = buffer;
  bool is_done = true;
  if (receiver->multi_receive_min != 0) {
    TND_ASSERT(receiver->arriving_count != 0);
    receiver->arriving_count--;
    is_done = receiver->is_closed && receiver->arriving_count == 0;
  }
  done.buffer_done = is_done;
  bool const is_wanted = !receiver->errors_only || done.code != status::ok ||
                         (receiver->multi_receive_min != 0 && is_done);
  if (is_done)
    receives_.release(receiver);
  if (is_wanted)
    complete(done);
  if (code == status::ok && (info.flags & wire::o2g::wants_ack) != 0) {
    link *const peer_link = peers_[info.source].current;
    if (peer_link != nullptr && peer_link->serial == info.link_serial)
      acknowledge(*peer_link, info.id, status::ok);
  }
}

// The next message of this link exceeds the limit on announced messages.
void engine_core::fail_at_announcement_limit(const link &peer_link) {
  peer const &sender = peers_[peer_link.peer];
  bounded_text const reason = format_text(
      "its peers have announced {} messages that no receive matches, the most that it accepts. {} "
      "unexpected messages are from {}. Post receives earlier, or send fewer messages ahead of "
      "them",
      announced_count_,
      sender.unexpected_count,
      to_text(sender.address));
  wire::o2g::envelope notice;
  notice.id = announced_count_;
  fail_engine(status::no_space, reason.c_str(), notice);
}

// Allocates the record of an unexpected message, with memory for its body unless it uses
// rendezvous. Null: there is no space, and the engine has failed.
message *engine_core::buffer_unexpected(link &peer_link, bool is_rendezvous) {
  uint64_t const size = sizeof(message) + (is_rendezvous ? 0 : peer_link.info.size);
  if (is_rendezvous && announced_count_ == announced_count_max) {
    fail_at_announcement_limit(peer_link);
    return nullptr;
  }
  void *const memory = unexpected_buffer_.allocate(size);
  if (memory == nullptr) {
    set_out_of_memory();
    return nullptr;
  }
  announced_count_ += is_rendezvous;
  auto *const unexpected = new (memory) message;
  unexpected->key = {peer_link.info.tag, peer_link.info.source};
  unexpected->current_state = is_rendezvous ? message::state::rendezvous : message::state::arriving;
  unexpected->is_announced = is_rendezvous;
  unexpected->info = peer_link.info;
  unexpected->peer_link = &peer_link;
  unexpected->allocated_size = size;
  peers_[peer_link.peer].unexpected_count++;
  peers_[peer_link.peer].unexpected_size += is_rendezvous ? 0 : size;
  counters_.unexpected_count++;
  counters_.unexpected_size += size;
  counters_.unexpected_size_peak =
      std::max(counters_.unexpected_size_peak, counters_.unexpected_size);
  return unexpected;
}

void engine_core::free_unexpected(message *unexpected) noexcept {
  uint64_t const size = unexpected->allocated_size;
  TND_ASSERT(!unexpected->is_queued);
  TND_ASSERT(peers_[unexpected->info.source].unexpected_count != 0);
  TND_ASSERT(counters_.unexpected_size >= size);
  bool const is_announced = unexpected->is_announced;
  peer &sender = peers_[unexpected->info.source];
  sender.unexpected_count--;
  sender.unexpected_size -= is_announced ? 0 : size;
  announced_count_ -= is_announced;
  counters_.unexpected_size -= size;
  credit_changed_ = true;
  unexpected->~message();
  unexpected_buffer_.release(unexpected, size);
}

// If the message being received into the unexpected buffer has been matched, moves it to the
// receive, where its rest is received.
void engine_core::redirect_unexpected(link &peer_link) {
  if (peer_link.destination != link::body_destination::unexpected)
    return;
  message *const unexpected = peer_link.message;
  TND_ASSERT(unexpected != nullptr && unexpected->current_state == message::state::arriving);
  if (unexpected->receiver == nullptr)
    return;
  peer_link.message = nullptr;
  peer_link.receive = unexpected->receiver;
  peer_link.info = unexpected->info;
  peer_link.receive_buffer = unexpected->receive_buffer;
  peer_link.destination = link::body_destination::receive;
  peer_link.body_parts =
      receive_parts(*peer_link.receive, peer_link.info, peer_link.receive_buffer);
  peer_link.body_parts.put({unexpected->bytes(), unexpected->received_size});
  free_unexpected(unexpected);
}

void engine_core::finish_unexpected(link &peer_link) {
  redirect_unexpected(peer_link);
  if (peer_link.destination == link::body_destination::receive) {
    peer_link.destination = link::body_destination::discard;
    return finish_receive(peer_link.receive, peer_link.info, peer_link.receive_buffer, status::ok);
  }
  if (peer_link.destination != link::body_destination::unexpected)
    return;
  message *const unexpected = std::exchange(peer_link.message, nullptr);
  peer_link.destination = link::body_destination::discard;
  TND_ASSERT(unexpected->received_size == unexpected->info.size);
  unexpected->current_state = message::state::complete;
  unexpected->peer_link = nullptr;
  if (unexpected->is_discarded)
    discard_unexpected(unexpected);
}

// A receive has matched a rendezvous message: requests its body.
void engine_core::request_body(const pulled_message &pulled) noexcept {
  TND_ASSERT(pulled.receiver != nullptr && pulled.peer_link != nullptr);
  std::unique_ptr<pulled_message> record{new (std::nothrow) pulled_message{pulled}};
  envelope head;
  head.kind = uint8_t(kind::pull);
  head.id = pulled.info.id;
  head.address = record == nullptr ? 0 : pulled_bodies_.add(record.get());
  head.size = pulled.info.accepted_size;
  operation *const op = head.address == 0 ? nullptr : make_operation(head, {});
  if (op == nullptr) {
    pulled_bodies_.remove(head.address);
    set_out_of_memory();
    return finish_receive(pulled.receiver, pulled.info, pulled.buffer, status::no_memory);
  }
  (void)record.release();
  op->is_internal = true;
  send_operation(*pulled.peer_link, op);
}

void engine_core::begin_pulled_body(link &peer_link) {
  pulled_message *const record = pulled_bodies_.find(peer_link.head.id);
  if (record == nullptr || record->peer_link != &peer_link ||
      peer_link.head.size != record->info.accepted_size)
    return drop_on_violation(peer_link, "sent a body that was not pulled");
  std::unique_ptr<pulled_message> const pulled{pulled_bodies_.remove(peer_link.head.id)};
  peer_link.receive = pulled->receiver;
  peer_link.info = pulled->info;
  peer_link.receive_buffer = pulled->buffer;
  peer_link.destination = link::body_destination::receive;
  peer_link.body_parts =
      receive_parts(*peer_link.receive, peer_link.info, peer_link.receive_buffer);
}

void engine_core::answer_pull(link &peer_link) {
  operation *const op = awaiting_reply_.find(peer_link.head.id);
  if (op == nullptr || op->peer_link != &peer_link || op->is_queued ||
      op->head.kind != uint8_t(kind::announce) || peer_link.head.size > op->head.size)
    return drop_on_violation(peer_link, "pulled a message that was not announced");
  bool const wants_ack = (op->head.flags & wire::o2g::wants_ack) != 0;
  peer_link.release(*op);
  op->head.kind = uint8_t(kind::body);
  op->head.id = peer_link.head.address;
  op->head.size = peer_link.head.size;
  op->body_size = peer_link.head.size;
  op->written_size = 0;
  if (!wants_ack) {
    awaiting_reply_.remove(op->id);
    op->id = 0;
  }
  peer_link.push(op);
  flush(peer_link);
}

void engine_core::handle_ack(link &peer_link) {
  operation *const op = awaiting_reply_.find(peer_link.head.id);
  if (op == nullptr || op->peer_link != &peer_link || op->is_queued)
    return drop_on_violation(peer_link, "sent an ACK for an unknown request");
  bool const expects_data =
      op->head.kind == uint8_t(kind::get) || (op->head.flags & wire::o2g::fetches) != 0;
  status const code = wire::status_of(int32_t(peer_link.head.data));
  if (expects_data && code == status::ok)
    return drop_on_violation(peer_link, "sent an ACK with status ok instead of the data requested");
  awaiting_reply_.remove(peer_link.head.id);
  op->id = 0;
  peer_link.release(*op);
  finish(op, code);
}

}  // namespace tanada::o2g
