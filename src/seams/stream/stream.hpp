// seams/stream/stream.hpp: the seam to connections that carry bytes in order. Implementations:
// socket_stream (TCP and UNIX sockets) and sim::stream.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/base/result.hpp"

namespace tanada::port {

// One end of a connection. Used by one thread at a time. Nothing here waits but `wait`.
class stream {
 public:
  virtual ~stream() = default;  // closes

  // Take what has come, into the parts in order. The number of bytes, at least 1; again: nothing
  // has come; peer_lost: the connection has ended; fault: the memory cannot be touched, and what
  // has come stays.
  virtual result<size_t> receive(std::span<const iovec> parts) = 0;

  // Hand over bytes from the parts in order. The number of bytes taken, at least 1; again: no room
  // now; peer_lost; fault: the memory cannot be touched. `descriptor`, if not -1, goes along with
  // the first byte: it is duplicated, and whoever has no UNIX socket is not_supported.
  virtual result<size_t> send(std::span<const iovec> parts, int descriptor = -1) = 0;

  // The next descriptor that came along with bytes already received; the caller's to close. -1:
  // none.
  virtual int take_descriptor() {
    return -1;
  }

  // Until something can be received, or sent, or has ended. timed_out at the deadline (absolute,
  // monotonic_clock).
  virtual status wait(bool to_receive, bool to_send, uint64_t deadline_ns) = 0;

  // For epoll; -1 where there is none.
  virtual int descriptor() const noexcept {
    return -1;
  }

  // Both ends are on one node, over a UNIX socket.
  virtual bool is_local() const noexcept {
    return false;
  }

  // Of the other end, for people: "127.0.0.1:4711", "unix, process 4711".
  virtual std::string peer() const = 0;

  // The user whose process has the other end, as the kernel knows it. None: another node's, or
  // nobody knows.
  virtual std::optional<uint32_t> peer_user() const {
    return std::nullopt;
  }

  // The same for all connections of one host: its address.
  virtual std::string peer_host() const {
    return peer();
  }
};

}  // namespace tanada::port
