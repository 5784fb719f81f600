// backends/etcd/etcd_stream.cc: sockets and TLS sessions to members of etcd.
#include "backends/etcd/etcd_stream.hpp"

#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::backends {

namespace {

void set_options(int socket) {
  int const on = 1, idle_s = 3, interval_s = 2, count = 3, unacknowledged_ms = 8'000;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // A silent connection whose peer is gone ends after 9 s.
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

struct address_deleter {
  void operator()(addrinfo *list) const noexcept {
    ::freeaddrinfo(list);
  }
};

std::unique_ptr<addrinfo, address_deleter> look_up(const etcd_endpoint &endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo *list = nullptr;
  int const code =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &list);
  if (code != 0)
    log(log_level::warning, "etcd: cannot look up {}: {}", endpoint.host, ::gai_strerror(code));
  return std::unique_ptr<addrinfo, address_deleter>{code == 0 ? list : nullptr};
}

}  // namespace

etcd_stream::~etcd_stream() {
  if (session_ && failure_ == status::ok)
    SSL_shutdown(session_.get());
  ERR_clear_error();
  ::close(socket_);
}

status etcd_stream::wait_for(short events) const {
  for (;;) {
    uint64_t const now_ns = seams::monotonic_clock().now_ns();
    if (interrupt_.is_raised())
      return status::canceled;
    if (now_ns >= deadline_ns_)
      return status::timed_out;
    uint64_t const remaining_ms = (deadline_ns_ - now_ns) / 1'000'000 + 1;
    pollfd watched[] = {{socket_, events, 0}, {interrupt_.file(), POLLIN, 0}};
    int const count =
        ::poll(watched, std::size(watched), int(std::min<uint64_t>(remaining_ms, 3'600'000)));
    if (count > 0 && watched[1].revents == 0)
      return status::ok;
    if (count < 0 && errno != EINTR)
      return status::io;
  }
}

status etcd_stream::finish_connect() const {
  TND_TRY(wait_for(POLLOUT));
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? status::ok : status::peer_lost;
}

// Waits for what the TLS session needs after a call returned `returned`.
status etcd_stream::wait_for_tls(int returned) const {
  int const reason = SSL_get_error(session_.get(), returned);
  if (reason == SSL_ERROR_WANT_READ)
    return wait_for(POLLIN);
  if (reason == SSL_ERROR_WANT_WRITE)
    return wait_for(POLLOUT);
  return reason == SSL_ERROR_SSL ? status::access : status::peer_lost;
}

status etcd_stream::start_tls(SSL_CTX *context, const etcd_endpoint &endpoint) {
  TND_ASSIGN(session_, tls_session_create(context, endpoint.host, socket_));
  for (;;) {
    ERR_clear_error();
    int const returned = SSL_connect(session_.get());
    if (returned == 1)
      return status::ok;
    status const code = wait_for_tls(returned);
    if (code == status::access)
      return fail(
          code, "etcd: no TLS session with {}:{}: {}", endpoint.host, endpoint.port, tls_reason());
    TND_TRY(code);
  }
}

result<std::unique_ptr<etcd_stream>> etcd_stream::connect(const etcd_endpoint &endpoint,
                                                          SSL_CTX *context,
                                                          uint64_t deadline_ns,
                                                          const etcd_interrupt &interrupt) {
  auto const addresses = look_up(endpoint);
  status last = status::peer_lost;
  for (addrinfo const *address = addresses.get(); address != nullptr; address = address->ai_next) {
    int const socket = ::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0)
      continue;
    std::unique_ptr<etcd_stream> stream{new etcd_stream(socket, deadline_ns, interrupt)};
    set_options(socket);
    if (::connect(socket, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS)
      continue;
    last = stream->finish_connect();
    if (last == status::ok && context != nullptr)
      last = stream->start_tls(context, endpoint);
    if (last == status::ok)
      return stream;
    stream->failure_ = last;
    if (last != status::peer_lost)
      break;
  }
  return last;
}

bool etcd_stream::is_readable() const {
  return buffer_begin_ < buffer_end_ || wait_for(POLLIN) == status::ok;
}
bool etcd_stream::is_writable() const {
  return wait_for(POLLOUT) == status::ok;
}

// At least one byte; 0: the end; -1: failed.
ssize_t etcd_stream::receive(char *target, size_t size) {
  for (;;) {
    ERR_clear_error();
    ssize_t const got = session_ ? SSL_read(session_.get(), target, int(size))
                                 : ::recv(socket_, target, size, MSG_DONTWAIT);
    if (got > 0)
      return got;
    bool const would_block = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    if (session_)
      failure_ = wait_for_tls(int(got));
    else
      failure_ = got < 0 && would_block ? wait_for(POLLIN) : status::peer_lost;
    if (failure_ == status::access)
      log(log_level::warning, "etcd: the TLS session has ended: {}", tls_reason());
    if (failure_ != status::ok)
      return got == 0 ? 0 : -1;
  }
}

ssize_t etcd_stream::read(char *target, size_t size) {
  size = std::min<uint64_t>(size, allowed_size_ - read_size_);
  if (size == 0) {
    failure_ = status::too_big;
    return -1;
  }
  if (buffer_begin_ == buffer_end_) {
    ssize_t const got = receive(buffer_.data(), buffer_.size());
    if (got <= 0)
      return got;
    buffer_begin_ = 0;
    buffer_end_ = size_t(got);
  }
  size = std::min(size, buffer_end_ - buffer_begin_);
  std::memcpy(target, buffer_.data() + buffer_begin_, size);
  buffer_begin_ += size;
  read_size_ += size;
  return ssize_t(size);
}

ssize_t etcd_stream::write(const char *source, size_t size) {
  has_written_ = true;
  size = std::min<size_t>(size, 1 << 20);
  for (;;) {
    ERR_clear_error();
    ssize_t const sent = session_ ? SSL_write(session_.get(), source, int(size))
                                  : ::send(socket_, source, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0)
      return sent;
    bool const would_block = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    if (session_)
      failure_ = wait_for_tls(int(sent));
    else
      failure_ = would_block ? wait_for(POLLOUT) : status::peer_lost;
    if (failure_ != status::ok)
      return -1;
  }
}

void etcd_stream::get_remote_ip_and_port(std::string &ip, int &port) const {
  ip = "127.0.0.1";
  port = 0;
}

void etcd_stream::get_local_ip_and_port(std::string &ip, int &port) const {
  get_remote_ip_and_port(ip, port);
}

}  // namespace tanada::backends
