// products/o2g/link.hpp: the state of one connection: its send queue and the message being
// received.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/assert.hpp"
#include "products/o2g/operation.hpp"

namespace tanada::o2g {

// Counts the peers whose send queue is full. Written under the engine's lock, read without it.
struct full_peers {
  uint64_t size_max = 0;  // bytes of memory of one peer's send queue
  std::atomic<uint32_t> count = 0;
};

// One connection. The members that every message accesses come first, in four cache lines: with
// thousands of links, the link of the next message is usually not cached.
struct link {
  static constexpr size_t line_size = 64, hot_line_count = 4;

  // connecting and handshake end at a deadline. duplicate: both sides connected at the same time,
  // and this is the losing connection; the other side closes it. closed: no further events.
  enum class phase : uint8_t { connecting, handshake, established, duplicate, closed };
  // Destination of the body being received.
  enum class body_destination : uint8_t { discard, control, receive, unexpected, region, reply };

  alignas(line_size) phase current_phase = phase::handshake;
  body_destination destination = body_destination::discard;
  bool is_outgoing = false;
  bool is_self = false;  // to the engine itself: no connection, messages are delivered at once
  bool received_goodbye = false;  // the peer has sent a goodbye
  bool is_blocked = false;        // until the stream is writable
  bool is_delivering = false;     // is_self: a caller up the stack is delivering the queue
  bool region_in_use = false;     // a use of the target region has begun
  bool is_corked = false;     // the queue could be sent and is held back for more: see batching.cc
  bool is_in_driver = false;  // the message driver reads the socket
  bool only_delayed_acks = false;  // corked, and all queued operations are ACKs that are not urgent
  peer_index peer = any_peer;
  uint32_t partial_size = 0;    // bytes received of the next envelope
  uint64_t remaining_size = 0;  // bytes of the body not yet received
  uint64_t serial = 0;          // unique within the engine
  uint64_t granted_size = 0;    // bytes: the credit of the peer
  uint64_t received_cost = 0;   // bytes of it that its messages have used
  seams::stream_id stream = seams::no_stream;
  operation *first = nullptr, *last = nullptr;  // the send queue, in order

  wire::o2g::envelope head{};
  struct receive *receive = nullptr;
  std::byte *receive_buffer = nullptr;
  incoming info{};
  scatter body_parts{};

  std::array<std::byte, sizeof(wire::o2g::envelope)> partial{};
  uint64_t deadline_ns = 0;
  bool is_driver_refused = false;  // the message driver cannot read the socket
  uint32_t driver_connection = 0;
  uint64_t queued_size = 0;  // bytes that the send queue and held operations have, without replies
  full_peers *full = nullptr;
  // For the detection of a flood of small messages: see engine_core::should_batch().
  uint64_t burst_visit = 0, burst_ns = 0;
  uint32_t burst_count = 0;
  uint32_t corked_count = 0;  // operations
  std::vector<std::byte> batch;
  wire::o2g::hello_message peer_hello{};  // duplicate: the peer's hello, for promote_duplicate()
  uint64_t credit_size = 0;               // bytes: this side's credit at the peer
  uint64_t sent_cost = 0;                 // bytes of it that have been used
  bool is_credit_due = false;
  uint64_t full_since_ns = 0;          // 0: the queue is not known to be full
  uint64_t held_count = 0;             // announced operations whose copies are kept
  operation *credit_update = nullptr;  // in the send queue; carries granted_size
  uint64_t replies_size = 0;  // bytes of queued replies, which grow if the peer does not read
  std::vector<std::byte> control_body;  // body of a handshake message or atomic
  struct message *message = nullptr;
  operation *replied_operation = nullptr;  // got, fetched: the operation that the reply belongs to
  region_range range{};
  status access_status = status::ok;  // not ok: the peer's put or atomic is not carried out

  // Whether an operation that has already completed to the program is queued, or announced.
  bool has_injected() const noexcept {
    if (held_count != 0)
      return true;
    for (operation const *op = first; op != nullptr; op = op->next)
      if (op->is_batch || op->copy != nullptr)
        return true;
    return false;
  }

  bool is_full() const noexcept {
    return queued_size != 0 && queued_size >= full->size_max;
  }

  void push(operation *op) noexcept {
    TND_ASSERT(op != nullptr && !op->is_queued);
    TND_ASSERT((first == nullptr) == (last == nullptr));
    op->next = nullptr;
    op->peer_link = this;
    op->is_queued = true;
    add_held(op->held_size());
    (last == nullptr ? first : last->next) = op;
    last = op;
  }
  operation *pop() noexcept {
    operation *const op = first;
    TND_ASSERT(op != nullptr && op->is_queued && op->peer_link == this);
    first = op->next;
    if (first == nullptr)
      last = nullptr;
    if (credit_update == op)
      credit_update = nullptr;
    op->is_queued = false;
    drop_held(op->held_size());
    return op;
  }

  // Counts a copy that an operation keeps outside of the queue.
  void hold(operation &op) noexcept {
    TND_ASSERT(!op.is_queued && !op.is_held);
    op.is_held = true;
    held_count++;
    add_held(op.held_size());
  }
  void release(operation &op) noexcept {
    if (!std::exchange(op.is_held, false))
      return;
    TND_ASSERT(held_count != 0);
    held_count--;
    drop_held(op.held_size());
  }

 private:
  void add_held(uint64_t size) noexcept {
    bool const was_full = is_full();
    queued_size += size;
    if (!was_full && is_full())
      full->count++;
  }
  void drop_held(uint64_t size) noexcept {
    bool const was_full = is_full();
    TND_ASSERT(queued_size >= size);
    queued_size -= size;
    if (was_full && !is_full())
      full->count--;
  }
};

// Most messages access no member after the first part of `body_parts`.
static_assert(alignof(link) == link::line_size && offsetof(link, current_phase) == 0);
static_assert(offsetof(link, body_parts) + sizeof(iovec) + 16 <=
              link::hot_line_count * link::line_size);

}  // namespace tanada::o2g
