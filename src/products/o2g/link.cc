// Bytes sent to and received from a connection.

#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/o2g/engine_core.hpp"

namespace tanada::o2g {

using wire::o2g::envelope;
using wire::o2g::kind;

namespace {

constexpr size_t write_part_count_max = 64;  // parts of one write
constexpr uint64_t write_size_max = 1 << 20;
constexpr uint64_t joined_size_max = 4096;  // bytes
static_assert(part_count_max + 1 <= write_part_count_max && joined_size_max <= write_size_max);

// Stores the unsent parts of an operation and returns their number.
size_t unsent_parts(const operation &op, std::span<iovec> parts) {
  size_t count = 0;
  uint64_t skip = op.written_size;
  auto const add = [&](const void *addr, uint64_t size) {
    uint64_t const skipped = std::min(skip, size);
    skip -= skipped;
    if (size == skipped)
      return;
    parts[count++] = {const_cast<char *>(static_cast<const char *>(addr)) + skipped,
                      size - skipped};
  };
  if (!op.is_batch)
    add(&op.head, sizeof op.head);
  TND_ASSERT(op.written_size <= op.size() && op.part_count + 1 <= parts.size());
  uint64_t body = op.body_size;
  for (iovec const &part : op.body()) {
    uint64_t const size = std::min<uint64_t>(part.iov_len, body);
    add(part.iov_base, size);
    body -= size;
  }
  return count;
}

}  // namespace

// Called before the first byte is sent. A message without credit at the receiver is announced
// instead. False: no memory.
bool engine_core::begin_send(link &peer_link, operation &op) noexcept {
  if (op.is_batch || op.head.kind != uint8_t(kind::message) || op.is_credited)
    return true;
  TND_ASSERT(op.written_size == 0);
  if (has_credit(peer_link, op.head.size)) {
    use_credit(peer_link, op.head.size);
    op.is_credited = true;
    return true;
  }
  if (op.id == 0)
    op.id = awaiting_reply_.add(&op);
  if (op.id == 0) {
    set_out_of_memory();
    return false;
  }
  op.head.kind = uint8_t(kind::announce);
  op.body_size = 0;
  op.head.id = op.id;
  counters_.rendezvous_count++;
  return true;
}

void engine_core::flush(link &peer_link) noexcept {
  if (peer_link.is_self)
    return deliver_to_self(peer_link);
  uncork(peer_link);
  while (peer_link.first != nullptr && !peer_link.is_blocked &&
         peer_link.current_phase == link::phase::established && !is_out_of_memory_) {
    std::array<iovec, write_part_count_max> parts;
    size_t count = 0;
    uint64_t size = 0;
    for (operation *op = peer_link.first; op != nullptr; op = op->next) {
      if (count + part_count_max + 1 > parts.size() || size >= write_size_max)
        break;
      if (op->written_size == 0 && !begin_send(peer_link, *op))
        return;
      count += unsent_parts(*op, std::span{parts}.subspan(count));
      size = size_of({parts.data(), count});
    }
    uint64_t written = count > 1 && size <= joined_size_max
                           ? write_joined(peer_link, {parts.data(), count})
                           : write_parts(peer_link, {parts.data(), count});
    peer_link.is_blocked = written < size;
    while (written > 0) {
      operation *const op = peer_link.first;
      uint64_t const part = std::min(written, op->size() - op->written_size);
      op->written_size += part;
      written -= part;
      if (op->written_size == op->size())
        finish_write(peer_link.pop());
    }
  }
}

// Writes parts to the socket and returns the number of bytes accepted. If the write fails, the
// stream set calls on_closed() later.
uint64_t engine_core::write_parts(const link &peer_link, std::span<const iovec> parts) noexcept
    try {
  auto const sent = set_->send(peer_link.stream, parts);
  return sent.ok() ? result<size_t>{sent}.value() : 0;
} catch (const std::bad_alloc &) {
  set_out_of_memory();
  return 0;
}

// Writes the parts as one, which is cheaper for the system.
uint64_t engine_core::write_joined(const link &peer_link, std::span<const iovec> parts) noexcept {
  std::array<std::byte, joined_size_max> joined;
  size_t size = 0;
  TND_ASSERT(size_of(parts) <= joined.size());
  for (iovec const &part : parts) {
    std::memcpy(joined.data() + size, part.iov_base, part.iov_len);
    size += part.iov_len;
  }
  iovec const joined_part{joined.data(), size};
  return write_parts(peer_link, {&joined_part, 1});
}

// All bytes of the operation have been written. An operation that waits for a reply is found by its
// ID later.
void engine_core::finish_write(operation *op) noexcept {
  TND_ASSERT(!op->is_queued && op->peer_link->replies_size >= op->reply_size);
  op->peer_link->replies_size -= op->reply_size;
  if (op->head.kind == uint8_t(kind::announce)) {
    if (op->copy != nullptr)
      op->peer_link->hold(*op);  // the body is sent when it is pulled
    return;
  }
  op->copy = nullptr;
  if (op->id == 0)
    finish(op, status::ok);
}

// Delivers messages to the engine itself at once. Messages that result from a delivery are queued
// and delivered in turn.
void engine_core::deliver_to_self(link &self) noexcept {
  if (self.is_delivering)
    return;
  self.is_delivering = true;
  while (self.first != nullptr && !is_out_of_memory_) {
    operation *const op = self.first;
    if (!begin_send(self, *op))
      break;
    self.pop();
    std::array<iovec, part_count_max + 1> parts;
    envelope const head = op->head;
    size_t const count = unsent_parts(*op, parts);
    parts[0].iov_base = const_cast<envelope *>(&head);
    bool const is_answered = op->id != 0;  // then the reply may free it
    handle_event([&] {
      for (size_t i = 0; i < count; i++)
        receive_bytes(self, {static_cast<const std::byte *>(parts[i].iov_base), parts[i].iov_len});
    });
    if (!is_answered)
      finish_write(op);
  }
  self.is_delivering = false;
}

std::span<std::byte> engine_core::receive_target(uint64_t word) {
  link &peer_link = *reinterpret_cast<link *>(word);
  // Reading from the socket takes a while. Prefetching now loads the other cache lines that a
  // message accesses by then.
  for (size_t line = 1; line < link::hot_line_count; line++) {
    __builtin_prefetch(reinterpret_cast<const std::byte *>(&peer_link) + line * link::line_size, 1);
  }
  if (peer_link.remaining_size < direct_size_min ||
      peer_link.destination == link::body_destination::control ||
      peer_link.current_phase != link::phase::established)
    return {};
  auto const front = peer_link.body_parts.front();
  if (front.size() < direct_size_min || !begin_region_use(peer_link))
    return {};
  return front.first(std::min<uint64_t>(front.size(), peer_link.remaining_size));
}

void engine_core::on_placed(uint64_t word, size_t size) {
  handle_event([&] { advance_body(*reinterpret_cast<link *>(word), size); });
}

void engine_core::advance_body(link &peer_link, size_t size) {
  if (peer_link.current_phase != link::phase::established)
    return;
  if (peer_link.region_in_use)
    peer_link.range.parent->end_use();
  peer_link.region_in_use = false;
  TND_ASSERT(size <= peer_link.remaining_size);
  peer_link.body_parts.advance(size);
  peer_link.remaining_size -= size;
  if (peer_link.destination == link::body_destination::unexpected)
    peer_link.message->received_size += size;
  redirect_unexpected(peer_link);
  if (peer_link.remaining_size == 0)
    end_body(peer_link);
}

size_t engine_core::on_received(uint64_t word, std::span<const std::byte> bytes) {
  link &peer_link = *reinterpret_cast<link *>(word);
  handle_event([&] { receive_bytes(peer_link, bytes); });
  attach_to_driver(peer_link);
  return bytes.size();
}

// Accepts all bytes.
void engine_core::receive_bytes(link &peer_link, std::span<const std::byte> bytes) {
  for (auto rest = bytes; !rest.empty() && peer_link.current_phase != link::phase::closed;) {
    if (peer_link.remaining_size != 0) {
      rest = rest.subspan(receive_body(peer_link, rest));
      continue;
    }
    size_t const size = std::min(peer_link.partial.size() - peer_link.partial_size, rest.size());
    if (size == peer_link.partial.size()) {
      std::memcpy(&peer_link.head, rest.data(), size);
    } else {
      std::memcpy(peer_link.partial.data() + peer_link.partial_size, rest.data(), size);
      peer_link.partial_size += uint32_t(size);
      if (peer_link.partial_size == peer_link.partial.size())
        std::memcpy(&peer_link.head, peer_link.partial.data(), sizeof peer_link.head);
    }
    rest = rest.subspan(size);
    if (size == peer_link.partial.size() || peer_link.partial_size == peer_link.partial.size())
      receive_envelope(peer_link);
  }
}

size_t engine_core::receive_body(link &peer_link, std::span<const std::byte> bytes) {
  redirect_unexpected(peer_link);
  auto const body_bytes = bytes.first(std::min<uint64_t>(bytes.size(), peer_link.remaining_size));
  if (begin_region_use(peer_link))
    peer_link.body_parts.put(body_bytes);  // bytes that do not fit are dropped
  if (peer_link.region_in_use)
    peer_link.range.parent->end_use();
  peer_link.region_in_use = false;
  if (peer_link.destination == link::body_destination::unexpected)
    peer_link.message->received_size += body_bytes.size();
  peer_link.remaining_size -= body_bytes.size();
  if (peer_link.remaining_size == 0)
    end_body(peer_link);
  return body_bytes.size();
}

// Begins a use of the target region, which may be unregistered at any time. False: it is closed,
// and the rest of the body is dropped.
bool engine_core::begin_region_use(link &peer_link) {
  if (peer_link.destination != link::body_destination::region || peer_link.region_in_use)
    return true;
  peer_link.region_in_use = peer_link.range.parent->begin_use();
  if (peer_link.region_in_use)
    return true;
  peer_link.destination = link::body_destination::discard;
  peer_link.body_parts = {};
  peer_link.access_status = status::fault;
  return false;
}

void engine_core::receive_envelope(link &peer_link) {
  TND_ASSERT(peer_link.remaining_size == 0 && !peer_link.region_in_use);
  peer_link.partial_size = 0;
  if (wire::o2g::envelope_check(peer_link.head) != status::ok)
    return drop_on_violation(peer_link, "sent an invalid envelope");
  auto const message_kind = kind(peer_link.head.kind);
  bool const is_handshake =
      message_kind == kind::hello || message_kind == kind::welcome || message_kind == kind::refuse;
  if (peer_link.current_phase != link::phase::duplicate &&
      is_handshake != (peer_link.current_phase == link::phase::handshake))
    return drop_on_violation(
        peer_link,
        is_handshake ? "sent a second handshake message" : "sent a message before the handshake");
  peer_link.remaining_size = wire::o2g::following_size(peer_link.head);
  peer_link.destination = link::body_destination::discard;
  peer_link.body_parts = {};
  if (peer_link.current_phase != link::phase::duplicate)
    dispatch_envelope(peer_link);
  if (peer_link.remaining_size == 0 && peer_link.current_phase != link::phase::closed)
    end_body(peer_link);
}

// The peer violates the protocol: it is another program, or the stream is out of step.
void engine_core::drop_on_violation(link &peer_link, const char *violation) noexcept {
  log_peer_error([&] {
    log(log_level::warning,
        "o2g: protocol error: {} {}; dropping the connection",
        to_text(set_->peer(peer_link.stream)),
        violation);
  });
  drop_link(peer_link, status::protocol);
}

}  // namespace tanada::o2g
