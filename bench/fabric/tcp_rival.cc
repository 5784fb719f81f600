#include "tcp_rival.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace bench {
namespace {

struct request {
  uint64_t size;
  uint64_t writes;  // 1: the bytes follow; 0: they are requested
};

bool send_all(int to, const void *from, size_t size) {
  for (auto const *at = static_cast<const char *>(from); size > 0;) {
    ssize_t const count = send(to, at, size, MSG_NOSIGNAL);
    if (count <= 0)
      return false;
    at += count;
    size -= size_t(count);
  }
  return true;
}

bool receive_all(int from, void *to, size_t size, bool looks) {
  if (!looks)
    return size == 0 || recv(from, to, size, MSG_WAITALL) == ssize_t(size);
  for (auto *at = static_cast<char *>(to); size > 0;) {
    ssize_t const count = recv(from, at, size, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
      return false;
    if (count < 0) {
      sched_yield();
      continue;
    }
    at += count;
    size -= size_t(count);
  }
  return true;
}

void serve(int connection, size_t size, bool looks) {
  std::vector<std::byte> memory(size, std::byte{1});
  request asked{};
  while (receive_all(connection, &asked, sizeof asked, looks) && asked.size <= size) {
    char const done = 1;
    bool const well = asked.writes ? receive_all(connection, memory.data(), asked.size, looks) &&
                                         send_all(connection, &done, 1)
                                   : send_all(connection, memory.data(), asked.size);
    if (!well)
      break;
  }
}

void check(bool well) {
  if (!well)
    throw std::runtime_error("the plain connection has ended");
}

void no_delay(int connection) {
  int const one = 1;
  check(setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
}

}  // namespace

tcp_rival::tcp_rival(size_t size, bool looks) : looks_{looks} {
  int const listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  check(listener != -1 && bind(listener, reinterpret_cast<sockaddr *>(&at), length) == 0 &&
        listen(listener, 1) == 0 &&
        getsockname(listener, reinterpret_cast<sockaddr *>(&at), &length) == 0);
  process_ = fork();
  if (process_ == 0) {
    int const connection = accept(listener, nullptr, nullptr);
    no_delay(connection);
    serve(connection, size, looks);
    _exit(0);
  }
  connection_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  check(process_ != -1 && connect(connection_, reinterpret_cast<sockaddr *>(&at), length) == 0);
  close(listener);
  no_delay(connection_);
}

void tcp_rival::pause() {
  int state = 0;
  if (kill(process_, SIGSTOP) == 0)
    (void)waitpid(process_, &state, WUNTRACED);
}

void tcp_rival::resume() {
  (void)kill(process_, SIGCONT);
}

tcp_rival::~tcp_rival() {
  close(connection_);
  resume();
  waitpid(process_, nullptr, 0);
}

void tcp_rival::write(std::span<const std::byte> bytes) {
  request const asked{bytes.size(), 1};
  char done = 0;
  check(send_all(connection_, &asked, sizeof asked) &&
        send_all(connection_, bytes.data(), bytes.size()) &&
        receive_all(connection_, &done, 1, looks_));
}

void tcp_rival::read(std::span<std::byte> bytes) {
  request const asked{bytes.size(), 0};
  check(send_all(connection_, &asked, sizeof asked) &&
        receive_all(connection_, bytes.data(), bytes.size(), looks_));
}

}  // namespace bench
