// tests/e2e/o2g/raw_peer.hpp: a peer that sends arbitrary bytes to an endpoint.
#pragma once

#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "core/wire/o2g.hpp"
#include "e2e/o2g/loopback_listener.hpp"
#include "seams/clock/clock.hpp"
#include "seams/stream/socket_address.hpp"

namespace tanada::test {

using wire::o2g::envelope;
using wire::o2g::hello_message;
using wire::o2g::kind;

inline envelope head_of(kind what, uint64_t size = 0) {
  envelope head;
  head.kind = uint8_t(what);
  head.size = size;
  return head;
}

// Has a listener, so that it has an address of its own; one connection at a time.
class raw_peer {
 public:
  raw_peer() {
    address.family = seams::socket_address::family_kind::ipv4;
    address.bytes = {127, 0, 0, 1};
    address.port = listener_.port();
  }
  raw_peer(const raw_peer &) = delete;
  raw_peer &operator=(const raw_peer &) = delete;
  ~raw_peer() {
    close();
  }

  // receive_size: of the socket's buffer, in bytes; 0: the system's own.
  void connect(const seams::socket_address &to, int receive_size = 0) {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_size != 0)
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_size, sizeof receive_size);
    char system[seams::system_size_max];
    size_t const size = socket_address_to(to, system, sizeof system);
    ASSERT_EQ(::connect(socket_, reinterpret_cast<sockaddr *>(system), socklen_t(size)), 0);
    int const on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  void accept() {
    pollfd waiting{listener_.descriptor(), POLLIN, 0};
    ASSERT_EQ(::poll(&waiting, 1, 5000), 1);
    socket_ = ::accept(listener_.descriptor(), nullptr, nullptr);
    ASSERT_GE(socket_, 0);
  }
  void close() {
    if (socket_ >= 0)
      ::close(socket_);
    socket_ = -1;
  }
  // The peer's next receive fails.
  void reset() {
    linger const at_once{1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }

  // False: the peer has closed the connection, or reads nothing for 5 s.
  bool send(const void *source, size_t size) {
    timeval const soon{5, 0};
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    for (auto const *at = static_cast<const char *>(source); size > 0;) {
      ssize_t const sent = ::send(socket_, at, size, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR)
        continue;  // io_uring interrupts calls that have a time limit
      if (sent <= 0)
        return false;
      at += sent;
      size -= size_t(sent);
    }
    return true;
  }
  bool send(const envelope &head, const std::string &body = {}) {
    std::string bytes{reinterpret_cast<const char *>(&head), sizeof head};
    return send((bytes + body).data(), sizeof head + body.size());
  }

  // False: the connection has ended, or nothing arrived for 5 s.
  bool receive(void *target, size_t size) {
    timeval const soon{5, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
    for (auto *at = static_cast<char *>(target); size > 0;) {
      ssize_t const got = recv(socket_, at, size, 0);
      if (got < 0 && errno == EINTR)
        continue;
      if (got <= 0)
        return false;
      at += got;
      size -= size_t(got);
    }
    return true;
  }
  // The next envelope other than a credit update, and its body.
  bool receive(envelope &head, std::string *body = nullptr) {
    do {
      if (!receive(&head, sizeof head) || envelope_check(head) != status::ok)
        return false;
    } while (kind(head.kind) == kind::credit);
    std::string bytes(following_size(head), 0);
    if (!receive(bytes.data(), bytes.size()))
      return false;
    if (body != nullptr)
      *body = std::move(bytes);
    return true;
  }

  // True: the peer closes the connection soon, whatever it sends until then.
  bool is_closed() {
    uint64_t const end_ns = seams::monotonic_clock().now_ns() + 5'000'000'000;
    while (seams::monotonic_clock().now_ns() < end_ns) {
      pollfd waiting{socket_, POLLIN, 0};
      if (::poll(&waiting, 1, 100) != 1)
        continue;
      char bytes[4096];
      if (recv(socket_, bytes, sizeof bytes, 0) <= 0)
        return true;
    }
    return false;
  }

  hello_message hello() const {
    hello_message mine;
    mine.port = address.port;
    mine.family = 4;
    mine.bytes = address.bytes;
    mine.endpoint = {42};
    mine.credit = credit;
    return mine;
  }
  bool send(kind what, const hello_message &mine) {
    std::vector<std::byte> body;
    wire::encode(mine, body);
    return send(head_of(what, body.size()),
                {reinterpret_cast<const char *>(body.data()), body.size()});
  }

  // Connects and completes the handshake.
  void greet(const seams::socket_address &to, int receive_size = 0) {
    connect(to, receive_size);
    envelope answer;
    ASSERT_TRUE(send(kind::hello, hello()));
    ASSERT_TRUE(receive(answer));
    ASSERT_EQ(answer.kind, uint8_t(kind::welcome));
  }

  seams::socket_address address{};
  uint64_t credit = 0;  // bytes, of the next handshake

 private:
  loopback_listener listener_;
  int socket_ = -1;
};

}  // namespace tanada::test
