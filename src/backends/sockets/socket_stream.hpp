// backends/sockets/socket_stream.hpp: streams over TCP and UNIX sockets, and what accepts them.
#pragma once

#include <memory>
#include <string>

#include "seams/stream/stream.hpp"

namespace tanada::port {

// After so long without any sign of the peer's system a TCP connection has ended, unless a call
// says otherwise.
inline constexpr uint64_t stream_lost_after_ns = 60'000'000'000;

// Takes over a connected socket.
std::unique_ptr<stream> socket_stream_create(int socket);

// peer_lost with the system's words as message when nobody answers; timed_out; invalid for a name
// that does not resolve.
result<std::unique_ptr<stream>> tcp_connect(const std::string &host, uint16_t port,
                                            uint64_t deadline_ns);

// True when the other end of a TCP connection is this node.
bool is_to_this_node(const stream &connection);

// A UNIX socket by a name in the abstract space: nothing is left behind, and it is seen within one
// network namespace. Not logged when nobody answers: there may well be nobody.
result<std::unique_ptr<stream>> unix_connect(const std::string &name, uint64_t deadline_ns);

// A socket that listens.
class listener {
 public:
  listener() = default;
  explicit listener(int socket) : socket_{socket} {}
  listener(listener &&other) noexcept : socket_{other.socket_} {
    other.socket_ = -1;
  }
  listener &operator=(listener &&other) noexcept;
  ~listener();

  int descriptor() const noexcept {
    return socket_;
  }

  // again: nobody waits; too_many_files and no_memory: one waits, and goes on waiting.
  result<std::unique_ptr<stream>> accept();

  // Of a TCP socket.
  uint16_t port() const;

 private:
  int socket_ = -1;
};

// `host` is a numeric address or a name; port 0 takes a free one. Connections that it accepts have
// ended once the peer's system gave no sign for `lost_after_ns`. busy: somebody has the port;
// invalid: no such host.
result<listener> tcp_listen(const std::string &host, uint16_t port,
                            uint64_t lost_after_ns = stream_lost_after_ns);
result<listener> unix_listen(const std::string &name);

// True where the name stands for loopback addresses only. invalid: no such host.
result<bool> is_loopback(const std::string &host);

}  // namespace tanada::port
