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

namespace tanada::port {

namespace {

constexpr int backlog = 4096;
constexpr int keep_alive_count = 3;
constexpr int keep_alive_interval_s_max = 32767;  // the kernel refuses more

void set(int socket, int level, int name, int value) {
  setsockopt(socket, level, name, &value, sizeof value);
}

int family_of(const socket_address &address) {
  return address.family == socket_address::family_kind::ipv6 ? AF_INET6 : AF_INET;
}

}  // namespace

// Both ends of a connection have one address.
bool ends_on_this_node(int socket) {
  sockaddr_storage here{}, there{};
  socklen_t here_size = sizeof here, there_size = sizeof there;
  if (socket < 0 || getsockname(socket, reinterpret_cast<sockaddr *>(&here), &here_size) != 0)
    return false;
  if (getpeername(socket, reinterpret_cast<sockaddr *>(&there), &there_size) != 0)
    return false;
  if (here.ss_family != there.ss_family)
    return false;
  if (here.ss_family == AF_INET) {
    return reinterpret_cast<sockaddr_in *>(&here)->sin_addr.s_addr ==
           reinterpret_cast<sockaddr_in *>(&there)->sin_addr.s_addr;
  }
  return here.ss_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<sockaddr_in6 *>(&here)->sin6_addr,
                     &reinterpret_cast<sockaddr_in6 *>(&there)->sin6_addr, sizeof(in6_addr)) == 0;
}

// Within one node there is no link whose rate could be found out: models of it (BBR) only hold the
// bytes back. Everybody may use this one.
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

void socket_prepare(int socket, const stream_set_options &options) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  socket_detect_loss(socket, options.lost_after_ns);
  socket_suit_node(socket);
}

bool socket_is_lost(int socket, const stream_set_options &options, bool &is_patient) {
  int const lost_ms = int(std::min<uint64_t>(options.lost_after_ns / 1'000'000, 1 << 30));
  tcp_info info{};
  socklen_t size = sizeof info;
  int unsent = 0;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      ioctl(socket, SIOCOUTQNSD, &unsent) != 0)
    return false;
  bool const takes_nothing = unsent != 0 && info.tcpi_unacked == 0;
  if (takes_nothing != is_patient)
    set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, takes_nothing ? 0 : lost_ms);
  is_patient = takes_nothing;
  return takes_nothing && info.tcpi_probes >= keep_alive_count &&
         info.tcpi_last_ack_recv > uint32_t(lost_ms);
}

int socket_listen(socket_address &at, status &why) {
  sockaddr_storage system{};
  size_t const size = socket_address_to(at, &system, sizeof system);
  int const made =
      size == 0 ? -1 : socket(family_of(at), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (size == 0)
    errno = EINVAL;
  if (made >= 0)
    set(made, SOL_SOCKET, SO_REUSEADDR, 1);
  socklen_t length = sizeof system;
  bool const good = made >= 0 &&
                    bind(made, reinterpret_cast<sockaddr *>(&system), socklen_t(size)) == 0 &&
                    listen(made, backlog) == 0 &&
                    getsockname(made, reinterpret_cast<sockaddr *>(&system), &length) == 0;
  if (!good) {
    int const error = errno;
    why = fail(error == EADDRINUSE ? status::busy : socket_status(error), "cannot listen at %s: %s",
               to_text(at).c_str(), std::strerror(error));
    if (made >= 0)
      ::close(made);
    return -1;
  }
  auto bound = socket_address_from(&system, length);
  if (bound.ok())
    at = std::move(bound).value();
  return made;
}

int socket_connect(const socket_address &to, const socket_address &from,
                   const stream_set_options &options, status &why) {
  sockaddr_storage system{};
  size_t const size = socket_address_to(to, &system, sizeof system);
  int const made =
      size == 0 ? -1 : socket(family_of(to), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (size == 0)
    errno = EINVAL;
  bool good = made >= 0;
  if (good)
    socket_prepare(made, options);
  if (good && from.family == to.family) {
    socket_address interface = from;
    interface.port = 0;
    sockaddr_storage local{};
    size_t const local_size = socket_address_to(interface, &local, sizeof local);
    set(made, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    good = bind(made, reinterpret_cast<sockaddr *>(&local), socklen_t(local_size)) == 0;
  }
  if (good)
    good = ::connect(made, reinterpret_cast<sockaddr *>(&system), socklen_t(size)) == 0 ||
           errno == EINPROGRESS;
  if (good)
    return made;
  int const error = errno;
  why = fail(socket_status(error), "cannot connect to %s: %s", to_text(to).c_str(),
             std::strerror(error));
  if (made >= 0)
    ::close(made);
  return -1;
}

status socket_status(int error) {
  switch (error) {
    case EMFILE:
    case ENFILE: return status::too_many_files;
    case ENOBUFS:
    case ENOMEM: return status::no_memory;
    case EACCES:
    case EPERM: return status::access;
    case ETIMEDOUT: return status::timed_out;
    case EINVAL: return status::invalid;
    case EAFNOSUPPORT: return status::not_supported;
    default: return status::peer_lost;
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

socket_address socket_peer(int socket) {
  sockaddr_storage system{};
  socklen_t size = sizeof system;
  if (getpeername(socket, reinterpret_cast<sockaddr *>(&system), &size) != 0)
    return {};
  auto address = socket_address_from(&system, size);
  return address.ok() ? std::move(address).value() : socket_address{};
}

}  // namespace tanada::port
