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

namespace tanada::seams {

// One end of a connection. Used by one thread at a time. Only `wait` blocks.
class stream {
 public:
  virtual ~stream() = default;  // closes

  // Receives into the parts, in order. Returns the number of bytes, at least 1. again: nothing has
  // arrived. peer_lost: the connection has ended. fault: the memory is inaccessible, and the bytes
  // stay in the connection.
  virtual result<size_t> receive(std::span<const iovec> parts) = 0;

  // Sends bytes from the parts, in order. Returns the number of bytes accepted, at least 1. again:
  // no buffer space now. peer_lost. fault: the memory is inaccessible. `descriptor`, if not -1,
  // goes with the first byte: it is duplicated. not_supported: the connection is no UNIX socket.
  virtual result<size_t> send(std::span<const iovec> parts, int descriptor = -1) = 0;

  // The next descriptor that came with bytes already received; the caller closes it. -1: no more.
  virtual int take_descriptor() {
    return -1;
  }

  // Waits until the stream can receive, can send, or has ended. timed_out at the deadline
  // (absolute, monotonic_clock).
  virtual status wait(bool to_receive, bool to_send, uint64_t deadline_ns) = 0;

  // Lets wait() poll for input for about this time before it sleeps. A hint.
  virtual void set_spin(uint64_t spin_ns) noexcept {
    (void)spin_ns;
  }

  // For epoll; -1 if not available.
  virtual int descriptor() const noexcept {
    return -1;
  }

  // The events of descriptor() that report what the caller waits for.
  struct events {
    bool to_receive = false, to_send = false;
  };
  virtual events events_for(events wanted) const noexcept {
    return wanted;
  }

  // Both ends are on one node, over a UNIX socket.
  virtual bool is_local() const noexcept {
    return false;
  }

  // Describes the other end for people: "127.0.0.1:4711", "unix, process 4711".
  virtual std::string peer() const = 0;

  // The user that owns the process at the other end, from the kernel. Nothing: it is on another
  // node, or unknown.
  virtual std::optional<uint32_t> peer_user() const {
    return std::nullopt;
  }

  // Equal for all connections of one host: its address.
  virtual std::string peer_host() const {
    return peer();
  }
};

}  // namespace tanada::seams
