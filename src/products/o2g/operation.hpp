// products/o2g/operation.hpp: what an engine remembers of requests and messages on the way.
#pragma once

#include <array>
#include <memory>
#include <new>
#include <vector>

#include "core/wire/o2g.hpp"
#include "products/o2g/engine.hpp"
#include "products/o2g/scatter.hpp"

namespace tanada::o2g {

struct link;

// Something to be said to a peer: an envelope and its body.
struct operation {
  operation *behind = nullptr;  // in its link's queue
  wire::o2g::envelope head{};
  std::array<iovec, part_count_max> parts{};
  uint32_t part_count = 0;
  uint64_t body_size = 0;             // bytes of `parts` that follow the envelope
  uint64_t handed = 0;                // bytes of envelope and body that the system has taken
  std::unique_ptr<std::byte[]> copy;  // of an injected body
  region_use serving{};               // of the memory that is sent
  scatter answer{};                   // where the bytes of an answer go: get, fetching atomics
  completion done{};
  link *via = nullptr;
  uint64_t id =
      0;  // its number among those that wait for an answer; 0: it completes when it is handed over
  bool quiet = false;          // completes only when it fails
  bool silent = false;         // nobody asked for it: no completion at all
  bool must_not_wait = false;  // never announced
  bool in_queue = false;
  bool is_bare = false;      // no envelope of its own: the body is envelopes and bodies
  uint64_t answer_size = 0;  // bytes that count in the link's answers_size

  // Bytes that it holds while it waits; answers are counted as their link's answers_size.
  uint64_t held_size() const {
    return answer_size != 0 ? 0 : sizeof *this + (copy != nullptr ? body_size : 0);
  }
  uint64_t size() const {
    return (is_bare ? 0 : sizeof head) + body_size;
  }  // bytes on the wire
  std::span<const iovec> body() const {
    return {parts.data(), part_count};
  }
};

// What an envelope said of a message.
struct incoming {
  uint64_t tag = 0, data = 0, size = 0, id = 0;
  uint64_t fits = 0;  // bytes of it that the receive which took it has room for
  uint8_t flags = 0;
  peer_index source = any_peer;
  uint64_t serial = 0;  // of the link that it came by: only there its id means something
};

struct receive : posted_entry {
  std::array<iovec, part_count_max> parts{};
  uint32_t part_count = 0;
  uint64_t capacity = 0;
  completion done{};
  bool quiet = false;
  bool tagged = false;
  // For many messages:
  uint64_t many_size = 0, used = 0;
  uint32_t arriving = 0;  // messages on their way into it
  bool closed = false;    // it takes no more
};

// A receive that waits for the body of a message that was announced.
struct pulled_message {
  receive *into = nullptr;
  std::byte *to = nullptr;
  link *from = nullptr;
  incoming about{};
};

// A message that nobody expected, its bytes behind it in the same block of memory.
struct message : arrived_entry {
  // lost: it was claimed, and its peer went before it had come.
  enum class state : uint8_t { arriving, whole, announced, lost };
  state now = state::arriving;
  incoming about{};
  link *from = nullptr;         // arriving, announced
  uint64_t received = 0;        // bytes
  receive *taken_by = nullptr;  // while it was still arriving
  std::byte *taken_to = nullptr;
  bool dropped = false;  // nobody wants it: it goes when it has come
  void *claimed_with = nullptr;
  uint64_t allocated = 0;  // bytes, itself included

  std::byte *bytes() {
    return reinterpret_cast<std::byte *>(this + 1);
  }
};

// Objects that are made and dropped for each message.
template <class T>
class free_list {
 public:
  free_list() {
    kept_.reserve(kept_count_max);
  }  // so that dropping one needs no memory

  // Null: no memory.
  T *make() noexcept {
    if (kept_.empty())
      return new (std::nothrow) T;
    T *const made = kept_.back().release();
    kept_.pop_back();
    return made;
  }
  void drop(T *what) noexcept {
    if (kept_.size() == kept_count_max) {
      delete what;
      return;
    }
    std::destroy_at(what);
    kept_.emplace_back(std::construct_at(what));
  }

 private:
  static constexpr size_t kept_count_max = 4096;
  std::vector<std::unique_ptr<T>> kept_;
};

}  // namespace tanada::o2g
