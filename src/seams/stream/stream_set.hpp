// seams/stream/stream_set.hpp: the seam to many connections that are driven together, each byte
// handed over as it comes. Implementations: on epoll, on io_uring, and sim::stream_set. One
// contract suite (tests/contract/stream_set_contract.hpp) runs on all of them.
//
// stream.hpp is for one connection and whoever asks it; this is for thousands, and for whoever
// wants to be told.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/base/result.hpp"
#include "seams/stream/socket_address.hpp"

namespace tanada::port {

// A connection of a set, good until its `ended` was told or it was closed. Numbers are not used
// again soon.
using stream_id = uint64_t;
inline constexpr stream_id no_stream = ~uint64_t{0};

// Who is told. Every call comes from within drive(), close() excepted, in the order of the bytes
// for one connection. `word` is what the connection was given. All of them may send; close() ends
// the calls for that connection.
class stream_handler {
 public:
  virtual ~stream_handler() = default;

  // Somebody connected to the set's listener. The word that the connection is to have.
  virtual uint64_t accepted(stream_id id) = 0;

  // A connect() has succeeded.
  virtual void connected(uint64_t word) = 0;

  // Where the next bytes are to be put; empty: show them. Asked again after each `landed` and
  // `shown`; what was said holds until then, and the memory until the answer changes or the
  // connection is closed.
  virtual std::span<std::byte> landing(uint64_t word) = 0;

  // `size` bytes, at least 1, are at the front of what landing() said.
  virtual void landed(uint64_t word, size_t size) = 0;

  // Bytes that came, at least 1, valid within the call. How many were taken: all, or fewer when
  // landing() is no longer empty behind them (the rest is then copied there, and shown again if it
  // goes on). 0 is not an answer.
  virtual size_t shown(uint64_t word, std::span<const std::byte> bytes) = 0;

  // After a send took less than all: now there may be room.
  virtual void writable(uint64_t word) = 0;

  // Asked after each of the calls above: true ends drive() early, and the next drive() goes on. Any
  // thread may change it.
  virtual bool wants_break() const noexcept {
    return false;
  }

  // The last call for it, whoever ended it but close(): peer_lost (an orderly end, too), timed_out
  // and access for connects that nobody answers or may make.
  virtual void ended(uint64_t word, status why) = 0;
};

struct stream_set_options {
  uint32_t connection_count_max = 65536;
  uint32_t shown_size = 64 << 10;           // bytes shown at a time, at most
  uint64_t lost_after_ns = 45'000'000'000;  // of a peer that acknowledges nothing
  // For owners that drive again and again: a drive may return 0 and have looked at the connection
  // alone that spoke last.
  bool may_look_seldom = false;
};

// drive, send, connect, adopt, pause, resume and close by one thread at a time; wait by any, at the
// same time as those; wake by any.
class stream_set {
 public:
  virtual ~stream_set() = default;                // closes everything, tells nobody
  virtual const char *name() const noexcept = 0;  // "io_uring", "epoll", "simulated"

  // Before the first drive; outlives the set.
  virtual void attach(stream_handler &handler) = 0;

  // Port 0 takes a free one; the address with its port comes back. busy: somebody has it.
  virtual result<socket_address> listen(const socket_address &at) = 0;

  // Begins. `connected` or `ended` follows. too_many_files, no_memory: nothing began. `from`, if it
  // has a family, is the address of the interface to use; its port does not count.
  virtual result<stream_id> connect(const socket_address &to, const socket_address &from,
                                    uint64_t word) = 0;

  // Takes over a connected socket; it is the set's also when this fails.
  virtual result<stream_id> adopt(int socket, uint64_t word) = 0;

  // Hands bytes from the parts, in order, to the system, in the caller's thread. How many were
  // taken; 0: no room, or not connected yet. Less than all: `writable` follows. peer_lost: `ended`
  // follows.
  virtual result<size_t> send(stream_id id, std::span<const iovec> parts) = 0;

  // Nothing is told of it any more. Bytes handed over are still sent, in the background, if the
  // peer takes them.
  virtual void close(stream_id id) = 0;

  // From now on nothing is read of it and nothing told, until resume(): what comes stays in the
  // system, which slows the peer down, and an end is told after that. The handler may call both.
  // not_supported: this implementation cannot.
  virtual status pause(stream_id) {
    return status::not_supported;
  }
  virtual status resume(stream_id) {
    return status::not_supported;
  }

  // Bytes handed over that the peer's system has not acknowledged. A close while bytes lie unread
  // may lose them: TCP answers with a reset, and throws away what it had still to send.
  virtual uint64_t unsent_size(stream_id id) const {
    (void)id;
    return 0;
  }

  virtual socket_address peer(stream_id id) const = 0;

  // Do all that can be done without waiting, at most a bounded share for each connection. How many
  // calls of the handler were made; 0: there was nothing.
  virtual size_t drive() = 0;

  // Until drive would do something, or wake(), or the deadline (absolute, monotonic_clock;
  // timed_out).
  virtual status wait(uint64_t deadline_ns) = 0;

  // Ends a wait that is under way, or else the next one.
  virtual void wake() noexcept = 0;

  // For whoever waits in a poll of his own; readable when drive would do something. -1: there is
  // none.
  virtual int descriptor() const noexcept = 0;
};

// The environment's TND_STREAM_ENGINE says which: io_uring (where it is refused: epoll, said once
// per process at level info), epoll, or auto, which is epoll (bench/o2g/engine.cc measures the
// two). invalid: another word.
result<std::unique_ptr<stream_set>> stream_set_create(const stream_set_options &options);
result<std::unique_ptr<stream_set>> epoll_stream_set_create(const stream_set_options &options);
result<std::unique_ptr<stream_set>> uring_stream_set_create(const stream_set_options &options);

}  // namespace tanada::port
