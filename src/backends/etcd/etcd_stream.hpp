// backends/etcd/etcd_stream.hpp: a connection to a member of etcd, with or without TLS, over which
// cpp-httplib sends one request and receives the answer.
#pragma once

#include <httplib.h>

#include <array>
#include <cstdint>
#include <memory>

#include "backends/etcd/etcd_coordinator.hpp"
#include "backends/etcd/etcd_interrupt.hpp"
#include "backends/etcd/etcd_tls.hpp"

namespace tanada::backends {

/**
 * A stream with a deadline, a limit of received bytes, and an interrupt.
 *
 * cpp-httplib's own streams limit the time of one read but not of an answer, and not the size of
 * all headers.
 */
class etcd_stream final : public httplib::Stream {
 public:
  // A null context: without TLS. peer_lost: refused or lost. timed_out. access: the server has no
  // valid certificate, or refuses this client's. canceled: interrupted.
  static result<std::unique_ptr<etcd_stream>> connect(const etcd_endpoint &endpoint,
                                                      ssl_ctx_st *context,
                                                      uint64_t deadline_ns,
                                                      const etcd_interrupt &interrupt);
  ~etcd_stream() override;

  void set_deadline(uint64_t deadline_ns) noexcept {
    deadline_ns_ = deadline_ns;
  }
  // Allows so many bytes after those that were read.
  void allow(uint64_t size) noexcept {
    allowed_size_ = read_size_ + size;
  }
  bool has_written() const noexcept {
    return has_written_;
  }
  // Why the last call failed.
  status failure() const noexcept {
    return failure_;
  }

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
  etcd_stream(int socket, uint64_t deadline_ns, const etcd_interrupt &interrupt) noexcept
      : socket_{socket}, deadline_ns_{deadline_ns}, interrupt_{interrupt} {}

  status wait_for(short events) const;
  status finish_connect() const;
  status start_tls(ssl_ctx_st *context, const etcd_endpoint &endpoint);
  status wait_for_tls(int returned) const;
  ssize_t receive(char *target, size_t size);

  int socket_;
  uint64_t deadline_ns_;
  const etcd_interrupt &interrupt_;
  tls_session session_;
  uint64_t read_size_ = 0, allowed_size_ = 64 << 10;  // bytes; first those of the headers
  bool has_written_ = false;
  status failure_ = status::ok;
  std::array<char, 16 << 10> buffer_;
  size_t buffer_begin_ = 0, buffer_end_ = 0;
};

}  // namespace tanada::backends
