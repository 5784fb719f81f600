// bench/pool/socket.hpp: blocking sockets of rivals' clients. Calls throw; a call that waits too
// long fails.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

namespace bench {

class stream_socket {
 public:
  static stream_socket to_port(uint16_t port);              // of 127.0.0.1, without Nagle's delay
  static stream_socket to_path(const std::string &path);    // a UNIX socket
  explicit stream_socket(int file, unsigned limit_s = 60);  // takes ownership; a call waits at most
                                                            // this long, 0: forever
  ~stream_socket();
  stream_socket(stream_socket &&other) noexcept : file_{other.file_} {
    other.file_ = -1;
  }
  stream_socket &operator=(stream_socket &&) = delete;

  struct piece {
    const void *source;
    uint64_t size;
  };
  void send(std::initializer_list<piece> pieces);
  void receive(void *target, uint64_t size);
  // Receives what is available, at least one byte, at most `size`.
  uint64_t receive_some(void *target, uint64_t size);

 private:
  int file_;
};

// Responses in lines, with contents between them.
class line_socket {
 public:
  explicit line_socket(stream_socket socket) : socket_{std::move(socket)} {}
  stream_socket &socket() {
    return socket_;
  }
  std::string line();  // without its "\r\n"
  void bytes(void *target, uint64_t size);

 private:
  stream_socket socket_;
  std::string early_;  // bytes received together with a line
};

// Where a server listens: at a path, or if that is empty at a port.
struct socket_place {
  std::string path;
  uint16_t port = 0;

  stream_socket open() const {
    return path.empty() ? stream_socket::to_port(port) : stream_socket::to_path(path);
  }
  bool answers() const;
};

}  // namespace bench
