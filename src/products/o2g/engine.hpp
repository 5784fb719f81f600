// products/o2g/engine.hpp: the messaging engine: it matches messages and applies one-sided
// operations as they arrive.
//
// An engine is one endpoint: an address, its peers, and the posted receives. Bytes are transferred
// through a seams::stream_set. poll() makes progress in the caller's thread. While no thread calls,
// the engine's progress thread does so, and sleeps in the kernel when nothing arrives
// (products/o2g/progress_thread.hpp).
//
// A receiver grants each peer credit for the memory that its messages may use before a receive
// matches them. A message within the credit is sent at once. Otherwise it uses rendezvous: it is
// announced, and pulled when a receive matches. This bounds the memory for unexpected messages, and
// a legal program neither hangs nor fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/base/result.hpp"
#include "products/o2g/atomic.hpp"
#include "products/o2g/match.hpp"
#include "products/o2g/message_driver.hpp"
#include "products/o2g/regions.hpp"
#include "products/o2g/scatter.hpp"
#include "seams/clock/clock.hpp"
#include "seams/stream/stream_set.hpp"

namespace tanada::o2g {

inline constexpr size_t inject_size_max = 1024;  // bytes

struct engine_options {
  seams::socket_address listen_address{};  // where to listen: an address that peers can reach. Port
                                           // 0 selects a free port
  std::string cookie{};                    // the job's: peers with a different one are rejected
  // Bytes of unexpected messages that all peers together may send eagerly, in equal shares.
  uint64_t unexpected_size_soft = uint64_t{256} << 20;
  // Bytes that unexpected messages never exceed, although the shares of the first peers are larger.
  uint64_t unexpected_size_hard = uint64_t{4} << 30;
  // Bytes of memory for each peer. While its send queue, including copied bodies, holds this much,
  // requests to the peer return `again`.
  uint64_t send_queue_size = uint64_t{64} << 20;
  uint32_t peer_count_max = 65536;          // registered with register_peer()
  uint32_t unregistered_count_max = 16384;  // unregistered peers. Beyond this, a new one replaces
                                            // one without a connection, or is rejected
  uint64_t connect_timeout_ns = 30'000'000'000;
  uint64_t tick_ns = 1'000'000;  // after this long without a caller, the progress thread takes over
  // 0: poll() never sleeps. Otherwise a caller whose polls have been fruitless for a while sleeps
  // inside poll(), for at most an eighth of the time it has waited, and at most this long.
  uint64_t sleep_ns_max = 0;
  bool has_thread = true;
  bool reports_remote = false;    // report every remote access; otherwise only puts with data
  seams::clock *clock = nullptr;  // for all deadlines and pauses, also those of the stream set.
                                  // Outlives the engine. Null: monotonic_clock
};

// buffer: a multi-receive has ended without another message. fetch: a fetching atomic. remote_put:
// a peer's put or atomic has been applied to local memory. remote_get: the reply to a peer's get or
// fetching atomic, read from local memory, is being sent.
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

// Reports that a request, or a peer's access to local memory, has ended.
struct completion {
  completion_kind kind = completion_kind::send;
  // overflow: the message was larger than the receive, and its last `truncated_size` bytes were
  // dropped. canceled. no_entry: a peek found no message. peer_lost. timed_out. access, fault: the
  // peer's memory could not be accessed. no_memory, no_space: the engine has failed.
  status code = status::ok;
  bool tagged = false, has_data = false;
  bool buffer_done = true;                // false: the multi-receive accepts more messages
  void *context = nullptr;                // the request's
  void *owner = nullptr;                  // the request's; null for a peer's operation
  uint64_t size = 0, truncated_size = 0;  // bytes
  uint64_t tag = 0, data = 0;             // for remote_put and remote_get, tag is the region's key
  peer_index source = any_peer;           // receive, remote_put, remote_get
  std::byte *buffer = nullptr;            // receive: the start of the message
};

// Receives completions. complete() is called with the engine's lock held: it must not call the
// engine, and must return soon. If it throws std::bad_alloc, the engine fails.
class completion_sink {
 public:
  virtual ~completion_sink() = default;
  virtual void complete(const completion &event) = 0;
};

struct send_request {
  peer_index target = 0;
  std::span<const iovec> parts{};
  uint64_t tag = 0, data = 0;
  bool tagged = false, has_data = false;
  bool inject = false;       // the caller may reuse the memory when the call returns; at most
                             // inject_size_max bytes
  bool errors_only = false;  // a completion only if it fails
  bool delivery_complete =
      false;  // completes when the message is in the memory of the matching receive
  void *context = nullptr, *owner = nullptr;
};

struct receive_request {
  std::span<const iovec> parts{};
  match_pattern pattern{0, 0, any_peer};  // without `tagged`, only `source` is used
  bool tagged = false;
  bool errors_only = false;
  uint64_t multi_receive_min = 0;  // bytes. Not 0: a multi-receive, whose buffer (one part) accepts
                                   // messages until less than this is free
  void *context = nullptr, *owner = nullptr;
};

// Looks for an unexpected message. claim: reserves it for a post_receive_claimed() with the same
// context. discard: frees it. A completion of kind `receive` describes the message; no_entry: there
// is no matching message.
struct peek_request {
  match_pattern pattern{0, 0, any_peer};
  bool tagged = false, claim = false, discard = false;
  void *context = nullptr, *owner = nullptr;
};

struct remote_range {
  uint64_t address = 0, size = 0, key = 0;
};

struct remote_request {  // put, get
  peer_index target = 0;
  std::span<const iovec> parts{};
  remote_range remote{};  // size: of all parts
  uint64_t data = 0;
  bool has_data = false;  // put: the target's remote_put completion carries `data`
  bool inject = false, errors_only = false;
  bool delivery_complete =
      true;  // put: completes when it has been applied; otherwise when its parts may be reused
  bool more = false;  // put: another request to this peer follows at once, and both may be batched
  void *context = nullptr, *owner = nullptr;
};

struct atomic_request {
  peer_index target = 0;
  atomic_type type = atomic_type::u64;
  atomic_operation operation = atomic_operation::sum;
  std::span<const std::byte> operands{}, compared{};  // compared: only for compare-and-swap
  std::span<std::byte> fetched{};                     // empty: not a fetching atomic
  remote_range remote{};
  bool inject = false, errors_only = false;
  bool delivery_complete = true;
  bool can_delay_ack =
      false;  // delivered: the completion is not urgent and may be a millisecond late
  bool is_continuation = false;  // part of a larger operation that has begun: never returns `again`
  void *context = nullptr, *owner = nullptr;
};

struct engine_statistics {
  uint64_t sent_count = 0, received_count = 0, unexpected_count = 0, rendezvous_count = 0;
  uint64_t unexpected_size = 0, unexpected_size_peak = 0;  // bytes
  uint64_t announced_count = 0;  // announced messages that no receive has matched
  uint64_t poll_count = 0, sleep_count = 0, thread_drive_count = 0;
  uint64_t connection_count = 0, peer_count = 0;
  uint64_t driver_connection_count = 0;  // connections that the message driver reads
  uint64_t driver_received_count = 0;    // messages that it has received
};

// One endpoint. Thread-safe.
//
// Every post_x() that returns ok has exactly one completion. With `errors_only` it has one only if
// it fails. Any other status means that nothing was begun:
//   again      the send queue of this peer is full. The call has made progress, so a caller that
//              only repeats it succeeds in the end.
//   invalid, no_memory, io errors of a new connection
//   peer_lost  the peer had already failed.
//   other      the engine has failed, with this status.
//
// No request and no cancel waits for another thread. While another thread holds the engine lock,
// the request is deferred: the call returns ok, or `again` if too many requests are deferred. Its
// errors are then reported by its completion. If memory runs out in the middle of an operation, the
// engine fails: every request then completes with no_memory.
class engine {
 public:
  // `sink` and `memory` must outlive the engine. `driver` may be null: the engine matches all
  // messages itself.
  static result<std::unique_ptr<engine>> create(std::unique_ptr<seams::stream_set> set,
                                                const engine_options &options,
                                                completion_sink &sink,
                                                regions &memory,
                                                std::unique_ptr<message_driver> driver = nullptr);
  virtual ~engine() = default;  // sends a goodbye; outstanding requests have no completion

  virtual seams::socket_address address() const = 0;

  // Returns the peer with this address, and adds it if it is new. Opens no connection. no_space:
  // there are peer_count_max registered peers. An unregistered peer keeps its index while it is
  // connected or has an unexpected message here. Afterwards another peer may get its index.
  virtual result<peer_index> register_peer(const seams::socket_address &address) = 0;
  virtual seams::socket_address peer_address(peer_index peer) const = 0;

  // A number that the caller stores with a peer, ~0 until it is set.
  virtual void set_peer_user_data(peer_index peer, uint64_t user_data) = 0;
  virtual uint64_t peer_user_data(peer_index peer) const = 0;

  virtual status post_send(const send_request &request) = 0;
  virtual status post_receive(const receive_request &request) = 0;
  virtual status post_peek(const peek_request &request) = 0;
  // Receives the message that a peek claimed with this context. no_entry: there is no such message.
  virtual status post_receive_claimed(const receive_request &request) = 0;
  virtual status discard_claimed(void *context, bool errors_only, void *owner) = 0;
  virtual status post_put(const remote_request &request) = 0;
  virtual status post_get(const remote_request &request) = 0;
  virtual status post_atomic(const atomic_request &request) = 0;

  // Cancels the posted receive with this context, which then completes with `canceled`. no_entry:
  // no posted receive has this context, for example because it has matched, or the engine has
  // failed. While another thread holds the engine lock, the cancel is deferred and returns ok, or
  // `again` if too many requests are deferred.
  virtual status cancel(void *context) = 0;

  // Makes progress and returns the number of handled events. Does not block, unless `may_sleep`
  // and options.sleep_ns_max allow a sleep after many fruitless calls.
  virtual size_t poll(bool may_sleep = true) = 0;

  // Blocks until there is work, until wake(), or until the deadline (absolute, monotonic_clock;
  // timed_out). Returns at once if `is_ready`, called before sleeping, returns true. A thread that
  // makes it true calls wake(). ok may also be returned earlier. The caller polls afterwards.
  virtual status wait(uint64_t deadline_ns, bool (*is_ready)(void *), void *argument) = 0;
  virtual void wake() noexcept = 0;
  virtual int descriptor() const noexcept = 0;  // readable when poll() has work; -1: not available

  virtual engine_statistics statistics() const = 0;
};

}  // namespace tanada::o2g
