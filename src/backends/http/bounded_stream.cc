// backends/http/bounded_stream.cc: a socket with a byte limit and a deadline.
#include "backends/http/bounded_stream.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace tanada::backends {

// Returns false if the deadline has passed or the server is stopping.
bool bounded_stream::wait_for(short events) const {
  for (;;) {
    auto const remaining = std::chrono::ceil<std::chrono::milliseconds>(
        limits_.deadline - std::chrono::steady_clock::now());
    if (remaining.count() <= 0)
      return false;
    pollfd watched[] = {{socket_, events, 0}, {limits_.stop_file, POLLIN, 0}};
    int const count = ::poll(watched, std::size(watched), int(remaining.count()));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0 || watched[1].revents != 0)
      return false;
    return true;
  }
}

bool bounded_stream::is_readable() const {
  return wait_for(POLLIN);
}
bool bounded_stream::is_writable() const {
  return wait_for(POLLOUT);
}

ssize_t bounded_stream::read(char *target, size_t size) {
  size = std::min<uint64_t>(size, limits_.receive_size_max - received_);
  if (size == 0)
    return -1;
  for (;;) {
    ssize_t const got = ::recv(socket_, target, size, MSG_DONTWAIT);
    if (got >= 0) {
      received_ += uint64_t(got);
      return got;
    }
    if (errno == EINTR)
      continue;
    if ((errno != EAGAIN && errno != EWOULDBLOCK) || !wait_for(POLLIN))
      return -1;
  }
}

ssize_t bounded_stream::write(const char *source, size_t size) {
  for (;;) {
    ssize_t const sent = ::send(socket_, source, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0)
      return sent;
    if (errno == EINTR)
      continue;
    if ((errno != EAGAIN && errno != EWOULDBLOCK) || !wait_for(POLLOUT))
      return -1;
  }
}

void bounded_stream::get_remote_ip_and_port(std::string &ip, int &port) const {
  ip = "127.0.0.1";
  port = 0;
}

void bounded_stream::get_local_ip_and_port(std::string &ip, int &port) const {
  get_remote_ip_and_port(ip, port);
}

}  // namespace tanada::backends
