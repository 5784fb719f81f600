// backends/sockets/peer_user.cc: the user at the other end of a local TCP connection.
#include "backends/sockets/peer_user.hpp"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

namespace tanada::backends {
namespace {

constexpr int answer_limit_ms = 1000;  // the kernel answers immediately
constexpr uint32_t overflow_user_default = 65534;
constexpr uint64_t all_users_count = 0xffffffff;  // 2^32 - 1 names no user

struct diag_request {
  nlmsghdr head;
  inet_diag_req_v2 body;
};

// Address and port of one end, in network byte order.
bool set_end(const sockaddr_storage &address, __be32 (&host)[4], __be16 &port) {
  if (address.ss_family == AF_INET) {
    auto const &v4 = reinterpret_cast<const sockaddr_in &>(address);
    std::memcpy(host, &v4.sin_addr, sizeof v4.sin_addr);
    port = v4.sin_port;
    return true;
  }
  if (address.ss_family != AF_INET6)
    return false;
  auto const &v6 = reinterpret_cast<const sockaddr_in6 &>(address);
  std::memcpy(host, &v6.sin6_addr, sizeof v6.sin6_addr);
  port = v6.sin6_port;
  return true;
}

// Builds the request for one socket, whose local end is this socket's remote end.
bool make_request(int socket, diag_request &request) {
  sockaddr_storage local{}, remote{};
  socklen_t local_size = sizeof local, remote_size = sizeof remote;
  if (getsockname(socket, reinterpret_cast<sockaddr *>(&local), &local_size) != 0)
    return false;
  if (getpeername(socket, reinterpret_cast<sockaddr *>(&remote), &remote_size) != 0)
    return false;
  request = {};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = uint8_t(local.ss_family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~uint32_t{0};
  request.body.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return set_end(remote, request.body.id.idiag_src, request.body.id.idiag_sport) &&
         set_end(local, request.body.id.idiag_dst, request.body.id.idiag_dport);
}

struct netlink_socket {
  int const descriptor = ::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  ~netlink_socket() {
    if (descriptor >= 0)
      close(descriptor);
  }
};

}  // namespace

std::optional<uint32_t> tcp_peer_user(int socket) {
  diag_request request;
  netlink_socket const kernel;
  if (kernel.descriptor < 0 || !make_request(socket, request))
    return std::nullopt;
  if (send(kernel.descriptor, &request, sizeof request, 0) != ssize_t(sizeof request))
    return std::nullopt;
  pollfd entry{kernel.descriptor, POLLIN, 0};
  if (poll(&entry, 1, answer_limit_ms) != 1)
    return std::nullopt;
  alignas(nlmsghdr) char buffer[4096];
  ssize_t const size = recv(kernel.descriptor, buffer, sizeof buffer, MSG_DONTWAIT);
  nlmsghdr head;
  inet_diag_msg diag_message;
  if (size < ssize_t(NLMSG_HDRLEN + sizeof diag_message))
    return std::nullopt;
  std::memcpy(&head, buffer, sizeof head);
  if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return std::nullopt;
  std::memcpy(&diag_message, buffer + NLMSG_HDRLEN, sizeof diag_message);
  // The kernel reports sockets without an owner as root's.
  if (diag_message.idiag_state != TCP_ESTABLISHED || diag_message.idiag_inode == 0)
    return std::nullopt;
  return known_user(diag_message.idiag_uid);
}

std::optional<uint32_t> known_user(uint32_t user) {
  uint32_t unmapped = overflow_user_default;
  std::ifstream{"/proc/sys/kernel/overflowuid"} >> unmapped;
  if (user != unmapped)
    return user;
  uint64_t first = 0;
  uint64_t first_outside = 0;
  uint64_t mapped_count = 0;
  std::ifstream{"/proc/self/uid_map"} >> first >> first_outside >> mapped_count;
  bool const maps_all = first == 0 && mapped_count >= all_users_count;
  return maps_all ? std::optional{user} : std::nullopt;
}

}  // namespace tanada::backends
