// products/o2g/engine.hpp: messages that are matched when they arrive, and one-sided operations
// that are applied when they arrive.
//
// An engine is one endpoint: an address, the peers it talks to, the receives that were posted.
// Bytes come through a port::stream_set. Whoever waits, drives: poll() handles what has come, in
// the caller's thread. While nobody calls, a thread of the engine's own does it, and sleeps in the
// kernel when nothing comes (products/o2g/attendance.hpp).
//
// A message goes out at once, with no handshake, when the receiver said that it has room for its
// size; a larger one is announced, and pulled when a receive matches. So memory for messages that
// nobody expected is bounded, and a legal program never hangs.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/base/result.hpp"
#include "products/o2g/atomic.hpp"
#include "products/o2g/match.hpp"
#include "products/o2g/regions.hpp"
#include "products/o2g/scatter.hpp"
#include "seams/clock/clock.hpp"
#include "seams/stream/stream_set.hpp"

namespace tanada::o2g {

inline constexpr size_t inject_size_max = 1024;  // bytes

struct engine_options {
  port::socket_address
      at{};  // where to listen; with an address that others can reach. Port 0: a free one
  std::string cookie{};  // of the job: peers with another are refused
  uint64_t dump_size_soft =
      uint64_t{256} << 20;  // bytes: what nobody expected, before larger messages are announced
  uint64_t dump_size_hard = uint64_t{4} << 30;  // bytes: then the engine ends
  uint64_t send_queue_size =
      uint64_t{64} << 20;  // bytes of memory, of one peer: when requests that it has not taken hold
                           // so much, with what is copied of them, more are refused with `again`
  uint32_t peer_count_max = 65536;      // named with peer_of()
  uint32_t stranger_count_max = 16384;  // that greeted and were not named: then those who are gone
                                        // make room, or nobody else comes
  uint64_t connect_timeout_ns = 30'000'000'000;
  uint64_t tick_ns =
      1'000'000;  // after so long without a caller the engine's own thread takes over
  // 0: poll() never sleeps. Else a caller that has polled fruitlessly for a while sleeps inside
  // poll(), at most an eighth of the time it has waited and at most this.
  uint64_t sleep_ns_max = 0;
  bool has_thread = true;
  bool hears_remote = false;     // of all that peers do to our memory; else of puts with data only
  port::clock *clock = nullptr;  // of deadlines and pauses, the set's own too; outlives the engine.
                                 // Null: monotonic_clock
};

// buffer: a receive for many messages ends without another one. fetch: an atomic that fetches.
// remote_put: a peer's put or atomic has been applied to our memory; remote_get: a peer's get, or
// an atomic that fetches, is being answered from it.
enum class completion_kind : uint8_t {
  send,
  receive,
  buffer,
  put,
  get,
  atomic,
  fetch,
  remote_put,
  remote_get
};

// What became of a request.
struct completion {
  completion_kind kind = completion_kind::send;
  status code = status::ok;  // overflow: a message was larger than the receive: `size` bytes came
                             // of `size + lost` canceled; no_entry: a peek found none; peer_lost;
                             // timed_out; access, fault: of the other side's memory
  bool tagged = false, has_data = false;
  bool buffer_done = true;       // of a receive for many messages: false while it takes more
  void *context = nullptr;       // the request's
  void *owner = nullptr;         // the request's; of a peer's operation: null
  uint64_t size = 0, lost = 0;   // bytes
  uint64_t tag = 0, data = 0;    // tag of remote_put, remote_get: the region's key
  peer_index source = any_peer;  // receive, remote_put, remote_get
  std::byte *buffer = nullptr;   // receive: where the message begins
};

// Called with the engine's lock held: it must not call the engine, and return soon. std::bad_alloc
// out of it ends the engine.
class completion_sink {
 public:
  virtual ~completion_sink() = default;
  virtual void complete(const completion &what) = 0;
};

struct send_request {
  peer_index to = 0;
  std::span<const iovec> parts{};
  uint64_t tag = 0, data = 0;
  bool tagged = false, has_data = false;
  bool inject = false;  // the memory is the caller's again when the call returns; inject_size_max
                        // bytes at most
  bool quiet = false;   // completes only when it fails
  bool delivered =
      false;  // completes when the message is in the memory of the receive that took it
  void *context = nullptr, *owner = nullptr;
};

struct receive_request {
  std::span<const iovec> parts{};
  match_pattern pattern{};  // without tagged: source only
  bool tagged = false;
  bool quiet = false;
  uint64_t many_size =
      0;  // bytes. Not 0: the buffer, one part, takes messages until less than this is left of it
  void *context = nullptr, *owner = nullptr;
};

// Look for a message that came unexpected. `claim`: keep it for a receive_claimed() with the same
// context; discard: drop it. A completion of kind receive says what was found; no_entry: nothing
// has come.
struct peek_request {
  match_pattern pattern{};
  bool tagged = false, claim = false, discard = false;
  void *context = nullptr, *owner = nullptr;
};

struct remote_range {
  uint64_t address = 0, size = 0, key = 0;
};

struct remote_request {  // put, get
  peer_index to = 0;
  std::span<const iovec> parts{};
  remote_range remote{};  // size: of all parts
  uint64_t data = 0;
  bool has_data = false;  // put: the target's remote_put completion comes with `data`
  bool inject = false, quiet = false;
  bool delivered =
      true;  // put: completes when it has been applied; else when its parts may be used again
  bool more = false;  // put: another request to this peer follows at once, and they may go together
  void *context = nullptr, *owner = nullptr;
};

struct atomic_request {
  peer_index to = 0;
  atomic_type type = atomic_type::u64;
  atomic_operation operation = atomic_operation::sum;
  std::span<const std::byte> operands{}, compared{};  // compared: for compare-and-swap kinds
  std::span<std::byte> fetched{};                     // empty: nothing is fetched
  remote_range remote{};
  bool inject = false, quiet = false;
  bool delivered = true;
  bool can_wait =
      false;  // delivered: nobody waits for the completion, which may come a millisecond late
  bool goes_on = false;  // part of something larger that was begun: never refused with `again`
  void *context = nullptr, *owner = nullptr;
};

struct engine_statistics {
  uint64_t sent_count = 0, received_count = 0, unexpected_count = 0, announced_count = 0;
  uint64_t dump_size = 0, dump_size_highest = 0;  // bytes
  uint64_t polls = 0, sleeps = 0, thread_drives = 0;
  uint64_t connection_count = 0, peer_count = 0;
};

// Thread-safe. Every post_x that returns ok has exactly one completion, a quiet one none or, when
// it fails, one; any other status means that nothing was begun: again (more waits for this peer
// than may wait; the call has looked whether something moves, so trying again and again goes on,
// too), invalid, no_memory, too_big, peer_lost (before anything was tried: the peer is gone),
// bad_state (the engine has ended). No request and no cancel waits for another thread: one that
// finds another thread at work returns ok, or `again` where too many are left already, and what is
// wrong with it is the code of its completion. What finds no memory in the middle of something ends
// the engine: every request then completes with no_memory.
class engine {
 public:
  // `sink` and `memory` outlive the engine.
  static result<std::unique_ptr<engine>> create(std::unique_ptr<port::stream_set> set,
                                                const engine_options &options,
                                                completion_sink &sink, regions &memory);
  virtual ~engine() = default;  // says bye; requests that are still out have no completion

  virtual port::socket_address address() const = 0;

  // The peer with this address, made when it is new; no connection is opened. no_space past
  // peer_count_max. A peer that greeted and was never named here keeps its number while it is
  // connected or a message of it waits; then the number may become another's.
  virtual result<peer_index> peer_of(const port::socket_address &address) = 0;
  virtual port::socket_address peer_address(peer_index peer) const = 0;

  // A number of the caller's own for a peer, ~0 until it is set.
  virtual void set_peer_word(peer_index peer, uint64_t word) = 0;
  virtual uint64_t peer_word(peer_index peer) const = 0;

  virtual status post_send(const send_request &request) = 0;
  virtual status post_receive(const receive_request &request) = 0;
  virtual status post_peek(const peek_request &request) = 0;
  // Of the message that a peek claimed with this context. no_entry: there is none.
  virtual status post_receive_claimed(const receive_request &request) = 0;
  virtual status discard_claimed(void *context, bool is_quiet, void *owner) = 0;
  virtual status post_put(const remote_request &request) = 0;
  virtual status post_get(const remote_request &request) = 0;
  virtual status post_atomic(const atomic_request &request) = 0;

  // The receive with this context completes as canceled. no_entry: it has matched, or never was; ok
  // where another thread is at work.
  virtual status cancel(void *context) = 0;

  // Handle what has come; returns how many things were handled. Does not wait, unless `may_sleep`
  // and options.sleep_ns_max allow a sleep after many fruitless calls.
  virtual size_t poll(bool may_sleep = true) = 0;

  // Until something has come, or wake(), or the deadline (absolute, monotonic_clock; timed_out), or
  // until `is_ready`, which is asked before it sleeps: whoever makes that true on another thread
  // calls wake(). Then poll.
  virtual status wait(uint64_t deadline_ns, bool (*is_ready)(void *), void *argument) = 0;
  virtual void wake() noexcept = 0;
  virtual int descriptor() const noexcept = 0;  // readable when poll would do something; -1

  virtual engine_statistics statistics() const = 0;
};

}  // namespace tanada::o2g
