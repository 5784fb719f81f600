#include "socket.hpp"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace bench {
namespace {

[[noreturn]] void fail(const char *call) {
  throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
}

}  // namespace

stream_socket::stream_socket(int file, unsigned limit_s) : file_{file} {
  if (file_ < 0)
    fail("socket");
  timeval const limit{limit_s, 0};
  (void)setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  (void)setsockopt(file_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  int const yes = 1;  // fails on UNIX sockets, which do not need it
  (void)setsockopt(file_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

stream_socket::~stream_socket() {
  if (file_ >= 0)
    (void)close(file_);
}

stream_socket stream_socket::to_port(uint16_t port) {
  stream_socket made{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in addr{};
  addr.sin_family = AF_INET;
  addr.sin_port = htons(port);
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(made.file_, reinterpret_cast<const sockaddr *>(&addr), sizeof addr) != 0)
    fail("connect");
  return made;
}

stream_socket stream_socket::to_path(const std::string &path) {
  stream_socket made{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_un addr{};
  addr.sun_family = AF_UNIX;
  if (path.size() >= sizeof addr.sun_path)
    throw std::runtime_error(path + ": too long for a UNIX socket");
  std::memcpy(addr.sun_path, path.data(), path.size());
  if (connect(made.file_, reinterpret_cast<const sockaddr *>(&addr), sizeof addr) != 0)
    fail("connect");
  return made;
}

void stream_socket::send(std::initializer_list<piece> pieces) {
  std::vector<iovec> left;
  for (const piece &each : pieces)
    left.push_back({const_cast<void *>(each.source), each.size});
  for (size_t first = 0; first < left.size();) {
    msghdr message{};
    message.msg_iov = &left[first];
    message.msg_iovlen = left.size() - first;
    ssize_t sent = sendmsg(file_, &message, MSG_NOSIGNAL);
    if (sent <= 0)
      fail("sendmsg");
    for (; first < left.size() && size_t(sent) >= left[first].iov_len; first++)
      sent -= ssize_t(left[first].iov_len);
    if (first == left.size())
      return;
    left[first].iov_base = static_cast<uint8_t *>(left[first].iov_base) + sent;
    left[first].iov_len -= size_t(sent);
  }
}

uint64_t stream_socket::receive_some(void *target, uint64_t size) {
  ssize_t const got = recv(file_, target, size, 0);
  if (got < 0)
    fail("recv");
  if (got == 0)
    throw std::runtime_error("the other side has ended the connection");
  return uint64_t(got);
}

void stream_socket::receive(void *target, uint64_t size) {
  for (uint64_t at = 0; at < size;)
    at += receive_some(static_cast<uint8_t *>(target) + at, size - at);
}

std::string line_socket::line() {
  for (;;) {
    size_t const end = early_.find("\r\n");
    if (end != std::string::npos) {
      std::string found = early_.substr(0, end);
      early_.erase(0, end + 2);
      return found;
    }
    char text[8192];
    early_.append(text, socket_.receive_some(text, sizeof text));
  }
}

void line_socket::bytes(void *target, uint64_t size) {
  uint64_t const here = std::min<uint64_t>(size, early_.size());
  std::memcpy(target, early_.data(), here);
  early_.erase(0, here);
  socket_.receive(static_cast<uint8_t *>(target) + here, size - here);
}

bool socket_place::answers() const {
  try {
    (void)open();
    return true;
  } catch (const std::runtime_error &) {
    return false;
  }
}

}  // namespace bench
