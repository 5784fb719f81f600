// seams/stream/stream_set.hpp: the seam to many connections that are driven together, with bytes
// passed on as they arrive. Implementations: on epoll, on io_uring, on select, and
// sim::stream_set. One contract suite (tests/contract/stream_set_contract.hpp) runs on all of them.
//
// stream.hpp is for one connection that its owner polls. This is for thousands, with callbacks.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/base/result.hpp"
#include "seams/stream/socket_address.hpp"

namespace tanada::seams {

// A connection of a set, valid until on_closed() was called for it or it was closed. Numbers are
// not reused soon.
using stream_id = uint64_t;
inline constexpr stream_id no_stream = ~uint64_t{0};

// Receives the events of a set. Every call comes from within progress(), and for one connection in
// the order of the bytes. `word` is the value given to the connection. All of them may send.
// close() ends the calls for that connection.
class stream_handler {
 public:
  virtual ~stream_handler() = default;

  // A peer has connected to the set's listener. Returns the word for the connection.
  virtual uint64_t on_accepted(stream_id id) = 0;

  // A connect() has succeeded.
  virtual void on_connected(uint64_t word) = 0;

  // Where the next bytes are to be placed. Empty: they are passed to on_received(). Called again
  // after each on_placed() and on_received(). The answer holds until then, and the memory until the
  // answer changes or the connection is closed.
  virtual std::span<std::byte> receive_target(uint64_t word) = 0;

  // `size` bytes, at least 1, have been placed at the front of receive_target().
  virtual void on_placed(uint64_t word, size_t size) = 0;

  // Bytes that arrived, at least 1, valid within the call. Returns how many were consumed: all, or
  // fewer when receive_target() is no longer empty after them. The rest is then copied there, and
  // passed again if it continues past the target. Must not return 0.
  virtual size_t on_received(uint64_t word, std::span<const std::byte> bytes) = 0;

  // Called after a send that accepted less than all, when there may be space again.
  virtual void on_writable(uint64_t word) = 0;

  // Called after each of the calls above. True ends progress() early, and the next progress()
  // continues. Any thread may change it.
  virtual bool should_stop() const noexcept {
    return false;
  }

  // The last call for a connection, unless close() ended it. peer_lost: also after an orderly end.
  // timed_out and access: a connect that no peer answered, or that was not permitted.
  virtual void on_closed(uint64_t word, status why) = 0;
};

struct stream_set_options {
  uint32_t connection_count_max = 65536;
  uint32_t receive_size_max = 64 << 10;       // most bytes passed at a time
  uint64_t peer_timeout_ns = 45'000'000'000;  // of a peer that acknowledges nothing
  // For owners that call progress() again and again. A call may return 0 after it has checked only
  // the connection that was active last.
  bool may_skip_idle = false;
};

// Thread safety: progress, send, connect, adopt, pause, resume, lend and close by one thread at a
// time; wait by any thread, at the same time as those; wake by any.
class stream_set {
 public:
  virtual ~stream_set() = default;                // closes everything, without callbacks
  virtual const char *name() const noexcept = 0;  // "io_uring", "epoll", "select", "simulated"

  // Called before the first progress(). The handler outlives the set.
  virtual void attach(stream_handler &handler) = 0;

  // Port 0 selects a free one; the address with its port is returned. busy: it is in use.
  virtual result<socket_address> listen(const socket_address &address) = 0;

  // Begins a connection. on_connected() or on_closed() follows. too_many_files, no_memory: nothing
  // has begun. `source`, if it has a family, is the address of the interface to use; its port is
  // ignored.
  virtual result<stream_id> connect(const socket_address &target,
                                    const socket_address &source,
                                    uint64_t word) = 0;

  // Takes over a connected socket, which belongs to the set even when this fails.
  virtual result<stream_id> adopt(int socket, uint64_t word) = 0;

  // Passes bytes from the parts, in order, to the system, in the caller's thread. Returns how many
  // were accepted; 0: no space, or not connected yet. Less than all: on_writable() follows.
  // peer_lost: on_closed() follows.
  virtual result<size_t> send(stream_id id, std::span<const iovec> parts) = 0;

  // No callback follows. Bytes already passed on are still sent, in the background, if the peer
  // accepts them.
  virtual void close(stream_id id) = 0;

  // Until resume(), nothing is read from the connection and no callback is called for it. What
  // arrives stays in the system, which slows the peer down. An end is reported after that. The
  // handler may call both. not_supported: this implementation cannot.
  virtual status pause(stream_id) {
    return status::not_supported;
  }
  virtual status resume(stream_id) {
    return status::not_supported;
  }

  // Lends the connection's socket to the caller, which reads it from now on, and returns the
  // descriptor, which belongs to the set. on_writable() and on_closed() after a loss are still
  // called, others are not. close() ends the loan. not_supported: this implementation cannot.
  virtual result<int> lend(stream_id) {
    return status::not_supported;
  }
  // Ends the loan without a close: the set reads the socket again.
  virtual status reclaim(stream_id) {
    return status::not_supported;
  }

  // wait() also returns while this descriptor is readable, and descriptor() is then readable, too.
  // The caller handles the event. The descriptor stays open as long as the set. not_supported: this
  // implementation cannot.
  virtual status watch_also(int descriptor) {
    (void)descriptor;
    return status::not_supported;
  }

  // Bytes passed on that the peer's system has not acknowledged. A close while received bytes are
  // unread may lose them: TCP answers with a reset, and discards what it had still to send.
  virtual uint64_t unsent_size(stream_id id) const {
    (void)id;
    return 0;
  }

  virtual socket_address peer(stream_id id) const = 0;

  // Does everything that is possible without waiting, with a bounded share for each connection.
  // Returns the number of calls of the handler; 0: there was nothing to do.
  virtual size_t progress() = 0;

  // Waits until progress() would do something, wake() is called, or the deadline has passed
  // (absolute, monotonic_clock; timed_out).
  virtual status wait(uint64_t deadline_ns) = 0;

  // Ends the current wait, or else the next one.
  virtual void wake() noexcept = 0;

  // For owners that wait in a poll of their own; readable when progress() would do something. -1:
  // not available.
  virtual int descriptor() const noexcept = 0;
};

// TND_STREAM_ENGINE selects the implementation. io_uring (where the system refuses it: epoll,
// logged once per process at level info), epoll, or auto, which is epoll (bench/o2g/engine.cc
// measures the two). invalid: another word.
result<std::unique_ptr<stream_set>> stream_set_create(const stream_set_options &options);
result<std::unique_ptr<stream_set>> epoll_stream_set_create(const stream_set_options &options);
result<std::unique_ptr<stream_set>> uring_stream_set_create(const stream_set_options &options);
// For descriptors below FD_SETSIZE. connect() and adopt() of a higher one: too_many_files.
result<std::unique_ptr<stream_set>> select_stream_set_create(const stream_set_options &options);

}  // namespace tanada::seams
