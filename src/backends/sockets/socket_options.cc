// backends/sockets/socket_options.cc: creates and configures the sockets of a stream_set.
#include "backends/sockets/socket_options.hpp"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/log.hpp"

namespace tanada::backends {

namespace {

constexpr int backlog = 4096;
constexpr int keep_alive_count = 3;
constexpr int keep_alive_interval_s_max = 32767;  // the kernel's limit

void set(int socket, int level, int name, int value) {
  setsockopt(socket, level, name, &value, sizeof value);
}

int family_of(const seams::socket_address &address) {
  return address.family == seams::socket_address::family_kind::ipv6 ? AF_INET6 : AF_INET;
}

}  // namespace

// The ends of a connection within one node have the same address.
bool ends_on_this_node(int socket) {
  sockaddr_storage local{}, remote{};
  socklen_t local_size = sizeof local, remote_size = sizeof remote;
  if (socket < 0 || getsockname(socket, reinterpret_cast<sockaddr *>(&local), &local_size) != 0)
    return false;
  if (getpeername(socket, reinterpret_cast<sockaddr *>(&remote), &remote_size) != 0)
    return false;
  if (local.ss_family != remote.ss_family)
    return false;
  if (local.ss_family == AF_INET) {
    return reinterpret_cast<sockaddr_in *>(&local)->sin_addr.s_addr ==
           reinterpret_cast<sockaddr_in *>(&remote)->sin_addr.s_addr;
  }
  return local.ss_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<sockaddr_in6 *>(&local)->sin6_addr,
                     &reinterpret_cast<sockaddr_in6 *>(&remote)->sin6_addr,
                     sizeof(in6_addr)) == 0;
}

// Within one node there is no link whose rate a congestion control could measure, and a model such
// as BBR only delays bytes. Every user may set "reno".
void socket_suit_node(int socket) {
  constexpr char plain[] = "reno";
  if (ends_on_this_node(socket))
    setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, plain, sizeof plain - 1);
}

void socket_detect_loss(int socket, uint64_t lost_after_ns) {
  int const lost_ms = int(std::min<uint64_t>(lost_after_ns / 1'000'000, 1 << 30));
  int const interval_s =
      std::clamp(lost_ms / 1000 / (keep_alive_count + 1), 1, keep_alive_interval_s_max);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, interval_s);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval_s);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, keep_alive_count);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, lost_ms);
}

void socket_prepare(int socket, const seams::stream_set_options &options) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  socket_tune(socket, options);
}

void socket_tune(int socket, const seams::stream_set_options &options) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  socket_detect_loss(socket, options.peer_timeout_ns);
  socket_suit_node(socket);
}

bool socket_is_lost(int socket,
                    const seams::stream_set_options &options,
                    bool &is_timeout_disabled) {
  int const lost_ms = int(std::min<uint64_t>(options.peer_timeout_ns / 1'000'000, 1 << 30));
  tcp_info info{};
  socklen_t size = sizeof info;
  int unsent = 0;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      ioctl(socket, SIOCOUTQNSD, &unsent) != 0)
    return false;
  bool const has_zero_window = unsent != 0 && info.tcpi_unacked == 0;
  if (has_zero_window != is_timeout_disabled)
    set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, has_zero_window ? 0 : lost_ms);
  is_timeout_disabled = has_zero_window;
  return has_zero_window && info.tcpi_probes >= keep_alive_count &&
         info.tcpi_last_ack_recv > uint32_t(lost_ms);
}

int socket_listen(seams::socket_address &address, status &code) {
  sockaddr_storage system{};
  size_t const size = seams::socket_address_to(address, &system, sizeof system);
  int const listener =
      size == 0 ? -1 : socket(family_of(address), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (size == 0)
    errno = EINVAL;
  if (listener >= 0)
    set(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  socklen_t length = sizeof system;
  bool const good = listener >= 0 &&
                    bind(listener, reinterpret_cast<sockaddr *>(&system), socklen_t(size)) == 0 &&
                    listen(listener, backlog) == 0 &&
                    getsockname(listener, reinterpret_cast<sockaddr *>(&system), &length) == 0;
  if (!good) {
    int const error = errno;
    code = fail(error == EADDRINUSE ? status::busy : socket_status(error),
                "cannot listen at {}: {}",
                seams::to_text(address),
                std::strerror(error));
    if (listener >= 0)
      ::close(listener);
    return -1;
  }
  auto bound = seams::socket_address_from(&system, length);
  if (bound.ok())
    address = std::move(bound).value();
  return listener;
}

int socket_connect(const seams::socket_address &target,
                   const seams::socket_address &source,
                   const seams::stream_set_options &options,
                   status &code) {
  sockaddr_storage system{};
  size_t const size = seams::socket_address_to(target, &system, sizeof system);
  int const connecting =
      size == 0 ? -1 : socket(family_of(target), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (size == 0)
    errno = EINVAL;
  bool good = connecting >= 0;
  if (good)
    socket_prepare(connecting, options);
  if (good && source.family == target.family) {
    seams::socket_address interface = source;
    interface.port = 0;
    sockaddr_storage local{};
    size_t const local_size = seams::socket_address_to(interface, &local, sizeof local);
    set(connecting, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    good = bind(connecting, reinterpret_cast<sockaddr *>(&local), socklen_t(local_size)) == 0;
  }
  if (good)
    good = ::connect(connecting, reinterpret_cast<sockaddr *>(&system), socklen_t(size)) == 0 ||
           errno == EINPROGRESS;
  if (good)
    return connecting;
  int const error = errno;
  code = fail(socket_status(error),
              "cannot connect to {}: {}",
              seams::to_text(target),
              std::strerror(error));
  if (connecting >= 0)
    ::close(connecting);
  return -1;
}

status socket_status(int error) {
  switch (error) {
    case EMFILE:
    case ENFILE:
      return status::too_many_files;
    case ENOBUFS:
    case ENOMEM:
      return status::no_memory;
    case EACCES:
    case EPERM:
      return status::access;
    case ETIMEDOUT:
      return status::timed_out;
    case EINVAL:
      return status::invalid;
    case EAFNOSUPPORT:
      return status::not_supported;
    default:
      return status::peer_lost;
  }
}

status socket_error(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? status::ok : socket_status(error);
}

uint64_t socket_unsent_size(int socket) {
  int size = 0;
  return ioctl(socket, SIOCOUTQ, &size) == 0 && size > 0 ? uint64_t(size) : 0;
}

seams::socket_address socket_peer(int socket) {
  sockaddr_storage system{};
  socklen_t size = sizeof system;
  if (getpeername(socket, reinterpret_cast<sockaddr *>(&system), &size) != 0)
    return {};
  auto address = seams::socket_address_from(&system, size);
  return address.ok() ? std::move(address).value() : seams::socket_address{};
}

}  // namespace tanada::backends
