// Connections: opened on first use, their handshake, and their end.

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/o2g/engine_core.hpp"

#include <tanada/status.h>

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::hello_message;
using wire::o2g::kind;

namespace {

// The version is the first field. The rest of a message of another version cannot be decoded.
status decode_hello(const std::vector<std::byte> &body, hello_message &hello) {
  if (body.size() >= sizeof hello.version)
    std::memcpy(&hello.version, body.data(), sizeof hello.version);
  return hello.version == wire::o2g::protocol_version ? wire::decode(body, hello) : status::ok;
}

}  // namespace

link &engine_core::make_link(link::phase phase) {
  TND_ASSERT(mutex_.is_locked());
  auto new_link = std::make_unique<link>();
  new_link->serial = ++serial_;
  new_link->current_phase = phase;
  new_link->full = &full_peers_;
  batched_links_.reserve(links_.size() + 1);  // so that adding it cannot fail
  credit_due_links_.reserve(links_.size() + 1);
  links_.push_back(std::move(new_link));
  link &added = *links_.back();
  if (phase != link::phase::established) {
    added.deadline_ns = seams::deadline_after(clock_.now_ns(), options_.connect_timeout_ns);
    next_deadline_ns_ = std::min(next_deadline_ns_, added.deadline_ns);
    if (handshaking_link_count_++ == 0 && options_.has_thread)
      set_->wake();  // the progress thread may sleep for longer than the deadline
  }
  return added;
}

status engine_core::open_connection(peer_index index) {
  TND_ASSERT(index < peers_.size() && peers_[index].current == nullptr);
  peer &peer_entry = peers_[index];
  bool const is_self = peer_entry.address == options_.listen_address;
  link &new_link = make_link(is_self ? link::phase::established : link::phase::connecting);
  new_link.peer = index;
  new_link.is_self = is_self;
  new_link.is_outgoing = true;
  if (is_self) {
    peer_entry.current = &new_link;
    grant_first_credit(new_link);
    new_link.credit_size = new_link.granted_size;
    return status::ok;
  }
  auto const stream = connect(new_link, peer_entry.address);
  if (!stream.ok()) {
    if (is_out_of_memory_) {
      close_link(new_link);  // the stream set may refer to it
      return stream.error();
    }
    TND_ASSERT(links_.back().get() == &new_link && handshaking_link_count_ != 0);
    handshaking_link_count_--;
    links_.pop_back();
    return stream.error();
  }
  new_link.stream = result<seams::stream_id>{stream}.value();
  peer_entry.current = &new_link;
  return status::ok;
}

// If memory runs out, it is unknown what the stream set has begun, so the engine fails.
result<seams::stream_id> engine_core::connect(link &peer_link,
                                              const seams::socket_address &address) noexcept try {
  return set_->connect(address, options_.listen_address, reinterpret_cast<uint64_t>(&peer_link));
} catch (const std::bad_alloc &) {
  set_out_of_memory();
  return status::no_memory;
}

uint64_t engine_core::on_accepted(seams::stream_id id) {
  link *new_link = nullptr;
  handle_event([&] { new_link = &make_link(link::phase::handshake); });
  if (new_link == nullptr) {
    close(id);
    new_link = &null_link_;
  } else {
    new_link->stream = id;
  }
  return reinterpret_cast<uint64_t>(new_link);
}

void engine_core::on_connected(uint64_t word) {
  link &peer_link = *reinterpret_cast<link *>(word);
  if (peer_link.current_phase == link::phase::closed)
    return;
  TND_ASSERT(peer_link.is_outgoing && peer_link.current_phase == link::phase::connecting);
  peer_link.current_phase = link::phase::handshake;
  handle_event([&] { send_handshake(peer_link, kind::hello, {}); });
}

// Sends a hello, welcome or refuse message. The socket buffer of a new connection has space for it.
void engine_core::send_handshake(link &peer_link, kind message_kind, const std::string &reason) {
  hello_message hello;
  hello.port = options_.listen_address.port;
  hello.family = uint8_t(options_.listen_address.family);
  hello.bytes = options_.listen_address.bytes;
  hello.endpoint = endpoint_;
  if (message_kind != kind::refuse)
    grant_first_credit(peer_link);
  hello.credit = peer_link.granted_size;
  hello.cookie = options_.cookie;
  std::vector<std::byte> body;
  if (message_kind == kind::refuse) {
    auto const text = std::as_bytes(std::span{reason});
    body.assign(text.begin(), text.end());
  } else {
    wire::encode(hello, body);
  }
  envelope head;
  head.kind = uint8_t(message_kind);
  head.size = body.size();
  std::array<iovec, 2> const parts{iovec{&head, sizeof head}, iovec{body.data(), body.size()}};
  auto sent = set_->send(peer_link.stream, parts);
  if (sent.ok() && std::move(sent).value() != sizeof head + body.size())
    drop_on_violation(peer_link, "does not accept the handshake message");
}

void engine_core::reject(link &peer_link, const std::string &reason) {
  log_peer_error([&] {
    log(log_level::warning,
        "o2g: rejected the connection from {}: {}",
        to_text(set_->peer(peer_link.stream)),
        reason);
  });
  send_handshake(peer_link, kind::refuse, reason);
  drop_link(peer_link, status::access);
}

void engine_core::handle_handshake(link &peer_link, kind message_kind) {
  TND_ASSERT(peer_link.current_phase == link::phase::handshake);
  if (peer_link.is_outgoing == (message_kind == kind::hello))
    return drop_on_violation(peer_link, "sent the wrong kind of handshake message");
  if (message_kind == kind::refuse) {
    log_peer_error([&] {
      std::vector<std::byte> const &body = peer_link.control_body;
      std::string_view const reason{reinterpret_cast<const char *>(body.data()), body.size()};
      log(log_level::error,
          "o2g: {} rejected this endpoint: {}",
          to_text(set_->peer(peer_link.stream)),
          reason);
    });
    return drop_link(peer_link, status::access);
  }
  hello_message hello;
  if (decode_hello(peer_link.control_body, hello) != status::ok)
    return drop_on_violation(peer_link, "sent a malformed handshake message");
  if (std::string const reason = rejection_reason(hello); !reason.empty())
    return reject(peer_link, reason);
  if (message_kind == kind::welcome)
    return establish(peer_link, peer_link.peer, hello);
  handle_hello(peer_link, hello);
}

// Why this endpoint does not accept the sender of a hello or welcome message; empty: it does.
std::string engine_core::rejection_reason(const hello_message &hello) const {
  if (hello.version != wire::o2g::protocol_version)
    return "it uses version " + std::to_string(hello.version) +
           " of the protocol, this endpoint uses " + std::to_string(wire::o2g::protocol_version);
  if (hello.cookie != options_.cookie)
    return "it belongs to another job (TND_O2G_COOKIE)";
  if (failure_ != status::ok)
    return std::string{"this endpoint has failed: "} + tnd_status_text(tnd_status(failure_));
  return {};
}

// A peer has opened a connection.
void engine_core::handle_hello(link &peer_link, const hello_message &hello) {
  seams::socket_address const address{
      seams::socket_address::family_kind(hello.family), hello.bytes, hello.port, 0};
  bool const is_address = hello.family == 4 || hello.family == 6;
  seams::socket_address const actual_address = set_->peer(peer_link.stream);
  // Every endpoint connects from the IP address that it listens at.
  bool const is_own_address =
      actual_address.family == address.family && actual_address.bytes == address.bytes;
  if (!is_address || !is_own_address || hello.port == 0 || address == options_.listen_address)
    return drop_on_violation(peer_link, "sent an address that is not its own");
  auto const index_result = find_or_add_unregistered(address);
  if (!index_result.ok())
    return reject(peer_link,
                  "there are too many peers, or there is insufficient memory for another");
  auto const index = result<peer_index>{index_result}.value();
  // Both connected at the same time: the connection opened by the lower address wins.
  bool const keeps_handshaking = options_.listen_address < address;
  if (!replace_existing(peer_link, index, hello, keeps_handshaking))
    return;
  send_handshake(peer_link, kind::welcome, {});
  if (peer_link.current_phase == link::phase::handshake)
    establish(peer_link, index, hello);
}

// Ends the existing connection of a peer that has opened another. False: the existing one is kept,
// and `peer_link` becomes a duplicate. `keeps_handshaking`: keep it if its handshake is in
// progress.
bool engine_core::replace_existing(link &peer_link,
                                   peer_index index,
                                   const hello_message &hello,
                                   bool keeps_handshaking) {
  link *const existing = peers_[index].current;
  TND_ASSERT(existing != &peer_link);
  if (existing == nullptr)
    return true;
  bool const is_established = existing->current_phase == link::phase::established;
  // The peer was restarted before this endpoint noticed; or the connection that it had opened is
  // broken, for it would not open another otherwise.
  if (is_established && (peers_[index].endpoint_id != hello.endpoint || !existing->is_outgoing)) {
    drop_link(*existing, status::peer_lost);
    return true;
  }
  if (is_established || keeps_handshaking) {
    peer_link.current_phase = link::phase::duplicate;
    peer_link.peer = index;
    peer_link.peer_hello = hello;
    return false;
  }
  while (existing->first != nullptr)
    peer_link.push(existing->pop());
  close_link(*existing);
  peer_link.peer = index;
  peers_[index].current = &peer_link;
  return true;
}

void engine_core::establish(link &peer_link, peer_index index, const hello_message &hello) {
  TND_ASSERT(index < peers_.size());
  TND_ASSERT(peer_link.current_phase == link::phase::handshake && !peer_link.is_self);
  TND_ASSERT(handshaking_link_count_ != 0);
  peer &peer_entry = peers_[index];
  peer_entry.current = &peer_link;
  peer_entry.has_failed = false;
  peer_entry.endpoint_id = hello.endpoint;
  peer_link.peer = index;
  peer_link.current_phase = link::phase::established;
  peer_link.credit_size = hello.credit;
  peer_link.deadline_ns = 0;
  handshaking_link_count_--;
  direct_link_count_++;
  flush(peer_link);
}

void engine_core::on_writable(uint64_t word) {
  if (is_out_of_memory_)
    return;
  link &peer_link = *reinterpret_cast<link *>(word);
  peer_link.is_blocked = false;
  if (peer_link.current_phase == link::phase::established)
    flush(peer_link);
}

void engine_core::on_closed(uint64_t word, status cause) {
  link &peer_link = *reinterpret_cast<link *>(word);
  if (&peer_link == &null_link_)
    return;
  peer_link.stream = seams::no_stream;
  if (peer_link.current_phase == link::phase::duplicate)
    return close_link(peer_link);
  if (peer_link.current_phase == link::phase::closed)
    return;
  bool const is_handshaking = peer_link.current_phase != link::phase::established;
  if (is_handshaking && peer_link.is_outgoing)
    log_peer_error([&] {
      log(log_level::warning,
          "o2g: cannot connect to {}: {}",
          to_text(peers_[peer_link.peer].address),
          tnd_status_text(tnd_status(cause)));
    });
  drop_link(peer_link, is_handshaking ? cause : status::peer_lost);
}

// Closes the connection. drive() frees the link later, when no caller up the stack can be using it.
void engine_core::close_link(link &peer_link) noexcept {
  TND_ASSERT(peer_link.current_phase != link::phase::closed);
  if (peer_link.current_phase != link::phase::established) {
    TND_ASSERT(handshaking_link_count_ != 0);
    handshaking_link_count_--;
  } else if (!peer_link.is_self && !peer_link.is_in_driver) {
    TND_ASSERT(direct_link_count_ != 0);
    direct_link_count_--;
  }
  peer_link.current_phase = link::phase::closed;
  has_closed_links_ = true;
  std::erase(batched_links_, &peer_link);
  uncork(peer_link);
  detach_from_driver(peer_link);
  revoke_credit(peer_link);
  if (peer_link.stream != seams::no_stream)
    close(peer_link.stream);
}

void engine_core::close(seams::stream_id id) noexcept try {
  TND_ASSERT(id != seams::no_stream);
  set_->close(id);
} catch (const std::bad_alloc &) {
  set_out_of_memory();
}

void engine_core::drop_link(link &peer_link, status cause) noexcept {
  if (peer_link.current_phase == link::phase::closed)
    return;
  bool const was_established = peer_link.current_phase == link::phase::established;
  close_link(peer_link);
  bool const was_current =
      peer_link.peer != any_peer && peers_[peer_link.peer].current == &peer_link;
  if (was_current) {
    peers_[peer_link.peer].current = nullptr;
    peers_[peer_link.peer].has_failed = true;
    if (failure_ == status::ok && !is_shutting_down_)
      handle_event([&] { promote_duplicate(peer_link, was_established); });
  }
  drop_incoming(peer_link, cause);
  fail_operations(peer_link, cause);
  take_driver_completions();  // receives whose messages the driver was storing
  bool const is_replaced =
      was_current && !was_established &&
      peers_[peer_link.peer].current != nullptr;  // no message was received on it, so none is lost
  if (was_current && !peer_link.received_goodbye && !is_replaced)
    fail_receives_from(peer_link.peer, cause);
}

// Ends the operations of a closed link: those that wait for a reply or a body, and its queue.
void engine_core::fail_operations(link &peer_link, status cause) noexcept {
  TND_ASSERT(peer_link.current_phase == link::phase::closed);
  pulled_bodies_.remove_if([&](pulled_message &pulled) { return pulled.peer_link == &peer_link; },
                           [&](pulled_message *pulled) {
                             finish_receive(pulled->receiver, pulled->info, pulled->buffer, cause);
                             delete pulled;
                           });
  awaiting_reply_.remove_if(
      [&](operation &op) { return op.peer_link == &peer_link && !op.is_queued; },
      [&](operation *op) {
        peer_link.release(*op);
        finish(op, cause);
      });
  while (peer_link.first != nullptr) {
    operation *const op = peer_link.pop();
    if (op->id != 0)
      awaiting_reply_.remove(op->id);
    finish(op, cause);
  }
}

// Fails the posted receives that name the peer.
void engine_core::fail_receives_from(peer_index index, status cause) noexcept {
  for (matcher *queue : {&tagged_matcher_, &untagged_matcher_})
    queue->find_posted_if([&](posted_entry &entry) {
      auto &receiver = static_cast<receive &>(entry);
      if (entry.pattern.source != index || !claim_posted(receiver))
        return false;
      remove_posted(receiver);
      fail_receive(&receiver, cause);
      return false;
    });
}

// The winning connection failed: the duplicate, opened by the peer, replaces it and takes over its
// send queue, of which nothing has been sent.
void engine_core::promote_duplicate(link &failed, bool was_established) {
  for (size_t i = 0; i < links_.size(); i++) {
    link &duplicate = *links_[i];
    if (duplicate.current_phase != link::phase::duplicate || duplicate.peer != failed.peer)
      continue;
    if (duplicate.remaining_size != 0)
      continue;  // the peer sends before the handshake, and the start of that message was ignored
    while (!was_established && failed.first != nullptr)
      duplicate.push(failed.pop());
    TND_ASSERT(!duplicate.is_outgoing && &duplicate != &failed);
    duplicate.current_phase = link::phase::handshake;
    send_handshake(duplicate, kind::welcome, {});
    if (duplicate.current_phase == link::phase::handshake)
      establish(duplicate, duplicate.peer, duplicate.peer_hello);
    return;
  }
}

// Ends the messages that were being received, and those announced and not pulled.
void engine_core::drop_incoming(link &peer_link, status cause) noexcept {
  if (peer_link.region_in_use)
    peer_link.range.parent->end_use();
  peer_link.region_in_use = false;
  auto const destination = std::exchange(peer_link.destination, link::body_destination::discard);
  peer_link.remaining_size = 0;
  peer_link.body_parts = {};
  if (destination == link::body_destination::receive)
    finish_receive(peer_link.receive, peer_link.info, peer_link.receive_buffer, cause);
  if (destination == link::body_destination::reply)
    finish(std::exchange(peer_link.replied_operation, nullptr), cause);
  drop_unexpected(peer_link);
  message *const partial =
      std::exchange(peer_link.message, nullptr);  // matched or discarded while it arrived
  if (destination != link::body_destination::unexpected || partial == nullptr)
    return;
  if (partial->receiver != nullptr)
    finish_receive(partial->receiver, partial->info, partial->receive_buffer, cause);
  free_unexpected(partial);
}

// Ends the unexpected messages of a link that are queued or claimed and cannot be received.
void engine_core::drop_unexpected(link &peer_link) noexcept {
  auto const belongs_to_link = [&](message &unexpected) {
    return unexpected.peer_link == &peer_link;
  };
  for (matcher *queue : {&tagged_matcher_, &untagged_matcher_})
    queue->find_arrived_if([&](arrived_entry &entry) {
      if (!belongs_to_link(static_cast<message &>(entry)))
        return false;
      queue->remove(entry);
      if (peer_link.message == &entry)
        peer_link.message = nullptr;
      free_unexpected(static_cast<message *>(&entry));
      return false;
    });
  for (auto const &[context, claimed] : claims_) {
    if (!belongs_to_link(*claimed))
      continue;
    if (peer_link.message == claimed)
      peer_link.message = nullptr;
    claimed->current_state = message::state::failed;
    claimed->peer_link = nullptr;
  }
}

void engine_core::check_deadlines() noexcept {
  TND_ASSERT(handshaking_link_count_ <= links_.size());
  uint64_t const now_ns = clock_.now_ns();
  if (now_ns < next_deadline_ns_)
    return;
  next_deadline_ns_ = ~uint64_t{0};
  for (size_t i = 0; i < links_.size(); i++) {
    link &peer_link = *links_[i];
    if (peer_link.deadline_ns == 0 || peer_link.current_phase == link::phase::closed)
      continue;
    if (now_ns < peer_link.deadline_ns) {
      next_deadline_ns_ = std::min(next_deadline_ns_, peer_link.deadline_ns);
      continue;
    }
    if (peer_link.current_phase == link::phase::duplicate) {
      close_link(peer_link);
    } else {
      if (peer_link.is_outgoing)
        log_peer_error([&] {
          log(log_level::warning,
              "o2g: {} did not answer within the connect timeout (TND_O2G_CONNECT_TIMEOUT)",
              to_text(peers_[peer_link.peer].address));
        });
      drop_link(peer_link, status::timed_out);
    }
  }
}

}  // namespace tanada::o2g
