// backends/sockets/socket_stream.hpp: streams over TCP and UNIX sockets, and their listeners.
#pragma once

#include <memory>
#include <string>

#include "seams/stream/stream.hpp"

namespace tanada::backends {

// The default time without an answer from the peer's system after which a TCP connection fails.
inline constexpr uint64_t stream_lost_after_ns = 60'000'000'000;

// Takes ownership of a connected socket.
std::unique_ptr<seams::stream> socket_stream_create(int socket);

// peer_lost: the connection failed; the message has the system's reason. timed_out: the deadline
// passed. invalid: the name does not resolve.
result<std::unique_ptr<seams::stream>> tcp_connect(const std::string &host,
                                                   uint16_t port,
                                                   uint64_t deadline_ns);

// Whether the other end of a TCP connection is on this node.
bool is_to_this_node(const seams::stream &connection);

// Connects to a UNIX socket by a name in the abstract namespace. Such a name leaves no file and is
// visible within one network namespace. A failure is not logged, because a missing listener is
// normal.
result<std::unique_ptr<seams::stream>> unix_connect(const std::string &name, uint64_t deadline_ns);

// A listening socket.
class listener {
 public:
  listener() = default;
  explicit listener(int socket) : socket_{socket} {}
  listener(listener &&source) noexcept : socket_{source.socket_} {
    source.socket_ = -1;
  }
  listener &operator=(listener &&source) noexcept;
  ~listener();

  int descriptor() const noexcept {
    return socket_;
  }

  // again: no connection is pending. too_many_files, no_memory: a connection is pending and stays
  // so.
  result<std::unique_ptr<seams::stream>> accept();

  // The port of a TCP socket.
  uint16_t port() const;

 private:
  int socket_ = -1;
};

// `host` is a numeric address or a name; port 0 chooses a free one. Accepted connections fail when
// the peer's system does not answer for `lost_after_ns`. busy: the port is in use. invalid: no such
// host.
result<listener> tcp_listen(const std::string &host,
                            uint16_t port,
                            uint64_t lost_after_ns = stream_lost_after_ns);
result<listener> unix_listen(const std::string &name);

// Whether the name resolves to loopback addresses only. invalid: no such host.
result<bool> is_loopback(const std::string &host);

}  // namespace tanada::backends
