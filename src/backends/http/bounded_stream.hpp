// backends/http/bounded_stream.hpp: the stream from which cpp-httplib reads a request and to which
// it writes the response.
#pragma once

#include <httplib.h>

#include <chrono>
#include <cstdint>

namespace tanada::backends {

/**
 * A socket stream that ends after a number of bytes received, at a deadline, or when another
 * descriptor becomes readable.
 *
 * cpp-httplib 0.11 limits the length of a header line but not the count of headers, and the time of
 * one read but not of a whole request. It also refuses descriptors of 1024 and above because it
 * would call select(). This class uses poll() and returns no descriptor.
 */
class bounded_stream : public httplib::Stream {
 public:
  struct limits {
    uint64_t receive_size_max;  // bytes
    std::chrono::steady_clock::time_point deadline;
    int stop_file;  // when it becomes readable, the stream ends
  };

  bounded_stream(int socket, const limits &allowed) noexcept : socket_{socket}, limits_{allowed} {}

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char *target, size_t size) override;
  ssize_t write(const char *source, size_t size) override;
  void get_remote_ip_and_port(std::string &ip, int &port) const override;
  void get_local_ip_and_port(std::string &ip, int &port) const override;
  socket_t socket() const override {
    return -1;
  }

 private:
  bool wait_for(short events) const;

  int socket_;
  limits limits_;
  uint64_t received_ = 0;
};

}  // namespace tanada::backends
