// backends/sockets/socket_stream.cc: streams over TCP and UNIX sockets.
#include "backends/sockets/socket_stream.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>

#include "backends/sockets/peer_user.hpp"
#include "backends/sockets/socket_options.hpp"
#include "backends/sockets/spin.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::backends {
namespace {

constexpr size_t part_count_max = 64;       // in one system call
constexpr size_t descriptor_count_max = 8;  // received and not taken yet: further ones are closed

// Rounded up, so that the deadline has passed after the wait.
int poll_milliseconds(uint64_t deadline_ns) {
  if (deadline_ns == ~uint64_t{0})
    return -1;
  uint64_t const now_ns = seams::monotonic_clock().now_ns();
  if (now_ns >= deadline_ns)
    return 0;
  uint64_t const rest_ms = (deadline_ns - now_ns + 999'999) / 1'000'000;
  return int(rest_ms > 3'600'000 ? 3'600'000 : rest_ms);
}

status poll_one(int socket, short events, uint64_t deadline_ns) {
  for (;;) {
    pollfd entry{socket, events, 0};
    int const timeout_ms = poll_milliseconds(deadline_ns);
    int const count = poll(&entry, 1, timeout_ms);
    if (count > 0)
      return status::ok;
    if (count < 0 && errno != EINTR)
      return status::io;
    if (timeout_ms == 0)
      return status::timed_out;
  }
}

class socket_stream final : public seams::stream {
 public:
  explicit socket_stream(int socket) : socket_{socket} {
    peer_size_ = sizeof peer_;
    if (getpeername(socket, reinterpret_cast<sockaddr *>(&peer_), &peer_size_) != 0)
      peer_size_ = 0;
    is_unix_ = peer_.ss_family == AF_UNIX;
    if (is_unix_)
      return;
    int const on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    socket_suit_node(socket);
  }
  ~socket_stream() override {
    for (int const received_descriptor : descriptors_)
      close(received_descriptor);
    close(socket_);
  }

  result<size_t> receive(std::span<const iovec> parts) override {
    msghdr message = message_of(parts);
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)];
    if (is_unix_) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
    }
    ssize_t const size = recvmsg(socket_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (is_unix_ && size >= 0)
      keep_descriptors(message);
    if (size > 0)
      return size_t(size);
    return size == 0 ? status::peer_lost : error_of();
  }

  result<size_t> send(std::span<const iovec> parts, int descriptor) override {
    msghdr message = message_of(parts);
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
    if (descriptor >= 0) {
      if (!is_unix_)
        return status::not_supported;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr *const head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    }
    ssize_t const size = sendmsg(socket_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size > 0)
      return size_t(size);
    return error_of();
  }

  int take_descriptor() override {
    if (descriptors_.empty())
      return -1;
    int const first = descriptors_.front();
    descriptors_.pop_front();
    return first;
  }

  status wait(bool to_receive, bool to_send, uint64_t deadline_ns) override {
    auto const is_readable = [this] {
      pollfd entry{socket_, POLLIN, 0};
      return poll(&entry, 1, 0) > 0;
    };
    if (to_receive && !to_send && spinner_.spin(deadline_ns, is_readable))
      return status::ok;
    return poll_one(
        socket_, short((to_receive ? POLLIN : 0) | (to_send ? POLLOUT : 0)), deadline_ns);
  }

  void set_spin(uint64_t spin_ns) noexcept override {
    spinner_ = spinner{useful_spin_ns(spin_ns)};
  }

  int descriptor() const noexcept override {
    return socket_;
  }
  bool is_local() const noexcept override {
    return is_unix_;
  }

  std::string peer() const override {
    if (is_unix_) {
      auto const process = unix_peer();
      return "unix, process " + std::to_string(process ? process->pid : 0);
    }
    text_address const address = peer_address();
    return address.host + ":" + address.port;
  }

  std::optional<uint32_t> peer_user() const override {
    if (!is_unix_)
      return tcp_peer_user(socket_);
    auto const process = unix_peer();
    return process ? known_user(process->uid) : std::nullopt;
  }

  std::string peer_host() const override {
    return is_unix_ ? "unix" : peer_address().host;
  }

 private:
  struct text_address {
    std::string host, port;
  };
  text_address peer_address() const {
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    getnameinfo(reinterpret_cast<const sockaddr *>(&peer_),
                peer_size_,
                host,
                sizeof host,
                port,
                sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    return {host, port};
  }

  std::optional<ucred> unix_peer() const {
    ucred process{};
    socklen_t size = sizeof process;
    if (getsockopt(socket_, SOL_SOCKET, SO_PEERCRED, &process, &size) != 0)
      return std::nullopt;
    return process;
  }

  static msghdr message_of(std::span<const iovec> parts) {
    msghdr message{};
    message.msg_iov = const_cast<iovec *>(parts.data());
    message.msg_iovlen = parts.size() < part_count_max ? parts.size() : part_count_max;
    return message;
  }

  static status error_of() {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS ||
        errno == ENOMEM)
      return status::again;
    return errno == EFAULT ? status::fault : status::peer_lost;
  }

  void keep_descriptors(const msghdr &message) {
    for (cmsghdr *head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(const_cast<msghdr *>(&message), head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
        continue;
      for (size_t offset = 0; CMSG_LEN(offset + sizeof(int)) <= head->cmsg_len;
           offset += sizeof(int)) {
        int received_fd = -1;
        std::memcpy(&received_fd, CMSG_DATA(head) + offset, sizeof received_fd);
        if (descriptors_.size() < descriptor_count_max)
          descriptors_.push_back(received_fd);
        else
          close(received_fd);
      }
    }
  }

  int const socket_;
  sockaddr_storage peer_{};  // the kernel forgets the address when the connection ends
  socklen_t peer_size_ = 0;
  bool is_unix_ = false;
  std::deque<int> descriptors_;
  spinner spinner_{0};
};

struct addresses {
  addrinfo *first = nullptr;
  ~addresses() {
    if (first != nullptr)
      freeaddrinfo(first);
  }
};

status resolve(const std::string &host, uint16_t port, bool to_listen, addresses &result) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  int const code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &result.first);
  if (code != 0)
    return fail(status::invalid, "{}: {}", host, gai_strerror(code));
  return status::ok;
}

// The length of an address in the abstract namespace. 0: the name is too long.
socklen_t abstract_address(const std::string &name, sockaddr_un &address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path)
    return 0;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

status connect_socket(int socket, const sockaddr *address, socklen_t size, uint64_t deadline_ns) {
  if (connect(socket, address, size) == 0)
    return status::ok;
  if (errno != EINPROGRESS && errno != EAGAIN)
    return status::peer_lost;
  if (poll_one(socket, POLLOUT, deadline_ns) != status::ok) {
    errno = ETIMEDOUT;
    return status::timed_out;
  }
  int error = 0;
  socklen_t error_size = sizeof error;
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &error_size);
  errno = error;
  return error == 0 ? status::ok : status::peer_lost;
}

}  // namespace

std::unique_ptr<seams::stream> socket_stream_create(int socket) {
  return std::make_unique<socket_stream>(socket);
}

result<std::unique_ptr<seams::stream>> tcp_connect(const std::string &host,
                                                   uint16_t port,
                                                   uint64_t deadline_ns) {
  addresses candidates;
  TND_TRY(resolve(host, port, false, candidates));
  status code = status::peer_lost;
  for (const addrinfo *candidate = candidates.first; candidate != nullptr;
       candidate = candidate->ai_next) {
    int const socket =
        ::socket(candidate->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket < 0)
      continue;
    socket_detect_loss(socket, stream_lost_after_ns);
    code = connect_socket(socket, candidate->ai_addr, candidate->ai_addrlen, deadline_ns);
    if (code == status::ok)
      return socket_stream_create(socket);
    int const error = errno;
    close(socket);
    errno = error;
  }
  return fail(code, "{} port {}: {}", host, port, std::strerror(errno));
}

bool is_to_this_node(const seams::stream &connection) {
  return ends_on_this_node(connection.descriptor());
}

result<std::unique_ptr<seams::stream>> unix_connect(const std::string &name, uint64_t deadline_ns) {
  sockaddr_un address;
  socklen_t const size = abstract_address(name, address);
  if (size == 0)
    return status::name_too_long;
  int const socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0)
    return status::too_many_files;
  status const code =
      connect_socket(socket, reinterpret_cast<sockaddr *>(&address), size, deadline_ns);
  if (code == status::ok)
    return socket_stream_create(socket);
  int const error = errno;
  close(socket);
  errno = error;
  return code;
}

listener &listener::operator=(listener &&source) noexcept {
  std::swap(socket_, source.socket_);
  return *this;
}

listener::~listener() {
  if (socket_ >= 0)
    close(socket_);
}

result<std::unique_ptr<seams::stream>> listener::accept() {
  int const socket = accept4(socket_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (socket >= 0)
    return socket_stream_create(socket);
  if (errno == EMFILE || errno == ENFILE)
    return status::too_many_files;
  if (errno == ENOMEM || errno == ENOBUFS)
    return status::no_memory;
  return status::again;
}

uint16_t listener::port() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket_, reinterpret_cast<sockaddr *>(&address), &size) != 0)
    return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 *>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in *>(&address)->sin_port);
}

result<listener> tcp_listen(const std::string &host, uint16_t port, uint64_t lost_after_ns) {
  addresses candidates;
  TND_TRY(resolve(host, port, true, candidates));
  int const socket =
      ::socket(candidates.first->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0)
    return fail(status::too_many_files, "socket: {}", std::strerror(errno));
  listener opened{socket};
  int const on = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  socket_detect_loss(socket, lost_after_ns);
  if (bind(socket, candidates.first->ai_addr, candidates.first->ai_addrlen) != 0 ||
      listen(socket, 1024) != 0) {
    status const code = errno == EADDRINUSE ? status::busy
                        : errno == EACCES   ? status::access
                                            : status::invalid;
    return fail(code, "{} port {}: {}", host, port, std::strerror(errno));
  }
  return opened;
}

result<listener> unix_listen(const std::string &name) {
  sockaddr_un address;
  socklen_t const size = abstract_address(name, address);
  if (size == 0)
    return status::name_too_long;
  int const socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0)
    return fail(status::too_many_files, "socket: {}", std::strerror(errno));
  listener opened{socket};
  if (bind(socket, reinterpret_cast<sockaddr *>(&address), size) != 0 ||
      listen(socket, 1024) != 0) {
    return fail(errno == EADDRINUSE ? status::busy : status::invalid,
                "socket {}: {}",
                name,
                std::strerror(errno));
  }
  return opened;
}

result<bool> is_loopback(const std::string &host) {
  addresses candidates;
  TND_TRY(resolve(host, 0, false, candidates));
  for (const addrinfo *candidate = candidates.first; candidate != nullptr;
       candidate = candidate->ai_next) {
    if (candidate->ai_family == AF_INET) {
      if ((ntohl(reinterpret_cast<sockaddr_in *>(candidate->ai_addr)->sin_addr.s_addr) >> 24) !=
          127)
        return false;
    } else if (!IN6_IS_ADDR_LOOPBACK(
                   &reinterpret_cast<sockaddr_in6 *>(candidate->ai_addr)->sin6_addr)) {
      return false;
    }
  }
  return true;
}

}  // namespace tanada::backends
