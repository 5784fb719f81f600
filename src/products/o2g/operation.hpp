// products/o2g/operation.hpp: the engine's records of requests and messages in flight.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "core/base/assert.hpp"
#include "core/wire/o2g.hpp"
#include "products/o2g/engine.hpp"
#include "products/o2g/scatter.hpp"

namespace tanada::o2g {

struct link;

// A message to a peer: an envelope and its body.
struct operation {
  operation *next = nullptr;  // next in its link's send queue
  wire::o2g::envelope head{};
  std::array<iovec, part_count_max> parts{};
  uint32_t part_count = 0;
  uint64_t body_size = 0;             // bytes of `parts` to send after the envelope
  uint64_t written_size = 0;          // bytes of envelope and body written to the socket
  std::unique_ptr<std::byte[]> copy;  // an injected body
  uint64_t copy_size = 0;             // bytes
  region_use source_use{};            // keeps the source memory of a reply to a get
  scatter reply_parts{};              // destination of the reply: get, fetching atomics
  completion done{};
  link *peer_link = nullptr;
  uint64_t id = 0;  // its ID while it waits for a reply; 0: it completes when it has been written
  bool errors_only = false;  // a completion only if it fails
  bool is_internal = false;  // not a request of the program: it has no completion
  bool is_credited = false;  // a message that has used credit
  bool is_held = false;      // its copy is counted by its link although it is not queued
  bool is_queued = false;
  bool is_batch = false;    // a batch carrier: its body consists of envelopes and bodies
  uint64_t reply_size = 0;  // bytes counted in the link's replies_size

  // Bytes that it holds while queued. Replies are counted in their link's `replies_size` instead.
  uint64_t held_size() const {
    return reply_size != 0 ? 0 : sizeof *this + copy_size;
  }
  uint64_t size() const {
    return (is_batch ? 0 : sizeof head) + body_size;
  }  // bytes on the wire
  std::span<const iovec> body() const {
    return {parts.data(), part_count};
  }
};

// Description of a message, from its envelope.
struct incoming {
  uint64_t tag = 0, data = 0, size = 0, id = 0;
  uint64_t accepted_size = 0;  // bytes of it that fit in the matching receive
  uint8_t flags = 0;
  peer_index source = any_peer;
  uint64_t link_serial = 0;  // of the link it was received on; `id` is only valid there
};

struct receive : posted_entry {
  std::array<iovec, part_count_max> parts{};
  uint32_t part_count = 0;
  uint64_t capacity = 0;
  completion done{};
  bool errors_only = false;
  bool tagged = false;
  uint32_t driver_slot = message_driver::no_slot;  // its slot in the message driver
  // Only for a multi-receive:
  uint64_t multi_receive_min = 0, used_size = 0;
  uint32_t arriving_count = 0;  // messages being received into it
  bool is_closed = false;       // accepts no more messages

  // Whether the message driver stores its message. Otherwise the driver, if it has the receive at
  // all, leaves the message to the engine.
  bool can_driver_store() const noexcept {
    return part_count <= 1 && multi_receive_min == 0;
  }
};

// A rendezvous message whose body has been requested for a receive.
struct pulled_message {
  receive *receiver = nullptr;
  std::byte *buffer = nullptr;
  link *peer_link = nullptr;
  incoming info{};
};

// An unexpected message. Its bytes follow it in the same block of memory.
struct message : arrived_entry {
  // failed: it was claimed, and its connection was dropped before all of it was received.
  enum class state : uint8_t { arriving, complete, rendezvous, failed };
  state current_state = state::arriving;
  incoming info{};
  link *peer_link = nullptr;    // arriving, rendezvous
  uint64_t received_size = 0;   // bytes
  receive *receiver = nullptr;  // matched while the message was still arriving
  std::byte *receive_buffer = nullptr;
  bool is_announced = false;
  bool is_discarded = false;  // discarded: freed when all of it has been received
  void *claim_context = nullptr;
  uint64_t allocated_size = 0;  // bytes, including this header

  std::byte *bytes() {
    return reinterpret_cast<std::byte *>(this + 1);
  }
};

// The bytes of a message follow it, in memory from unexpected_buffer.
static_assert(alignof(message) <= alignof(std::max_align_t));
static_assert(part_count_max <= 255 && sizeof(wire::o2g::envelope) % 8 == 0);

// A cache of objects that are created and freed for every message.
template <class T>
class free_list {
 public:
  free_list() {
    cached_.reserve(cached_count_max);
  }  // so that release() needs no memory

  // Returns null if there is no memory.
  T *acquire() noexcept {
    if (cached_.empty())
      return new (std::nothrow) T;
    T *const object = cached_.back().release();
    cached_.pop_back();
    return object;
  }
  void release(T *object) noexcept {
    TND_ASSERT(object != nullptr && cached_.size() <= cached_count_max);
    if (cached_.size() == cached_count_max) {
      delete object;
      return;
    }
    std::destroy_at(object);
    cached_.emplace_back(std::construct_at(object));
  }

 private:
  static constexpr size_t cached_count_max = 4096;
  std::vector<std::unique_ptr<T>> cached_;
};

}  // namespace tanada::o2g
