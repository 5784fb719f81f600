// products/o2g/link.hpp: one connection to a peer: what is still to be said, and what is being
// said.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <vector>

#include "products/o2g/operation.hpp"

namespace tanada::o2g {

// The peers with as much waiting for them as may wait. Written under the engine's lock, read
// without it.
struct full_peers {
  uint64_t size_max = 0;  // bytes of memory, of one peer
  std::atomic<uint32_t> count = 0;
};

// What every message touches comes first, in four lines of the cache: with thousands of links each
// message finds its own cold.
struct alignas(64) link {
  static constexpr size_t line_size = 64, hot_line_count = 4;

  // connecting and greeting end by a deadline. crossed: both sides connected at a time, and this
  // one lost; it is left to the other side to close. gone: nothing more happens.
  enum class phase : uint8_t { connecting, greeting, up, crossed, gone };
  // What is being said goes there: an envelope's body.
  enum class target : uint8_t { nothing, small, receive, dump, region, answer };

  phase now = phase::greeting;
  target to = target::nothing;
  bool outgoing = false;
  bool is_self = false;    // to the engine itself: no connection, what is said is heard at once
  bool said_bye = false;   // by the peer
  bool blocked = false;    // until it is writable
  bool feeding = false;    // is_self: somebody up the stack empties the queue
  bool in_use = false;     // of the region
  bool is_corked = false;  // what is queued could go, and waits for more: see gather.cc
  bool is_late = false;    // corked, and all of it can wait for whatever is said next
  peer_index peer = any_peer;
  uint32_t partial_size = 0;  // bytes of the next envelope that have come
  uint64_t rest = 0;          // bytes of the body still to come
  uint64_t serial = 0;        // no two of an engine have the same
  uint64_t room_most = 0;  // bytes: the most that was ever told: nothing larger comes unannounced
  port::stream_id stream = port::no_stream;
  operation *first = nullptr, *last = nullptr;  // what is to be said, in order

  wire::o2g::envelope head{};
  struct receive *receive = nullptr;
  std::byte *receive_to = nullptr;
  incoming about{};
  scatter place{};

  std::array<std::byte, sizeof(wire::o2g::envelope)> partial{};
  uint64_t deadline_ns = 0;
  uint64_t waiting_size = 0;  // bytes that the queue holds, answers apart
  full_peers *full = nullptr;
  // A flood of small messages with no poll in between is gathered: see engine_core::gathers().
  uint64_t burst_visit = 0, burst_ns = 0;
  uint32_t burst_count = 0;
  uint32_t corked_count = 0;  // operations
  std::vector<std::byte> gathered;
  wire::o2g::hello_message said{};  // crossed: what the other side said, should ours fail
  uint64_t room_there = 0;          // bytes: larger messages are announced
  uint64_t room_told = 0;
  operation *room_news = nullptr;  // stands in the queue, and says room_told
  uint64_t answers_size =
      0;  // bytes of memory that answers to the peer take while it does not read them
  std::vector<std::byte> small;  // greetings, atomics
  struct message *message = nullptr;
  operation *asked = nullptr;  // got, fetched: whose answer it is
  region_range range{};
  status refused = status::ok;  // a put, atomic that is not done

  // Something is queued that was completed when it was posted.
  bool has_promised() const noexcept {
    for (operation const *each = first; each != nullptr; each = each->behind)
      if (each->is_bare || (each->copy != nullptr && each->id == 0))
        return true;
    return false;
  }

  bool is_full() const noexcept {
    return waiting_size != 0 && waiting_size >= full->size_max;
  }

  void push(operation *what) noexcept {
    what->behind = nullptr;
    what->via = this;
    what->in_queue = true;
    bool const was_full = is_full();
    waiting_size += what->held_size();
    if (!was_full && is_full())
      full->count++;
    (last == nullptr ? first : last->behind) = what;
    last = what;
  }
  operation *pop() noexcept {
    operation *const popped = first;
    first = popped->behind;
    if (first == nullptr)
      last = nullptr;
    if (room_news == popped)
      room_news = nullptr;
    popped->in_queue = false;
    bool const was_full = is_full();
    waiting_size -= popped->held_size();
    if (was_full && !is_full())
      full->count--;
    return popped;
  }
};

// The place's first part is the last that most messages touch.
static_assert(offsetof(link, place) + sizeof(iovec) + 16 <= link::hot_line_count * link::line_size);

}  // namespace tanada::o2g
