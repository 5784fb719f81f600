// tests/e2e/o2g/loopback_listener.hpp: a socket that listens on a free port of the loopback.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace tanada::test {

class loopback_listener {
 public:
  loopback_listener() {
    at_.sin_family = AF_INET;
    at_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at_;
    EXPECT_EQ(bind(descriptor_, address(), size), 0);
    EXPECT_EQ(listen(descriptor_, 8), 0);
    EXPECT_EQ(getsockname(descriptor_, address(), &size), 0);
  }
  loopback_listener(const loopback_listener &) = delete;
  loopback_listener &operator=(const loopback_listener &) = delete;
  ~loopback_listener() {
    close(descriptor_);
  }

  int descriptor() const {
    return descriptor_;
  }
  uint16_t port() const {
    return ntohs(at_.sin_port);
  }

  // A connection to it: the connecting end and the accepted end. The caller owns both.
  std::pair<int, int> connected() {
    int const peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(peer, address(), sizeof at_), 0);
    return {peer, accept(descriptor_, nullptr, nullptr)};
  }

 private:
  sockaddr *address() {
    return reinterpret_cast<sockaddr *>(&at_);
  }

  int const descriptor_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at_{};
};

}  // namespace tanada::test
