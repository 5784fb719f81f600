// bench/pool/socket.hpp: blocking sockets of rivals' clients. Calls throw; one that waits for 60 s has failed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace bench {

class stream_socket {
 public:
  static stream_socket to_port(uint16_t port);             // of 127.0.0.1, without Nagle's delay
  static stream_socket to_path(const std::string &path);   // a UNIX socket
  explicit stream_socket(int file);                        // takes it over
  ~stream_socket();
  stream_socket(stream_socket &&other) noexcept : file_{other.file_} { other.file_ = -1; }
  stream_socket &operator=(stream_socket &&) = delete;

  struct piece {
    const void *source;
    uint64_t size;
  };
  void send(std::initializer_list<piece> pieces);
  void receive(void *target, uint64_t size);
  // As much as there is, at least a byte, at most `size`.
  uint64_t receive_some(void *target, uint64_t size);

 private:
  int file_;
};

}  // namespace bench
