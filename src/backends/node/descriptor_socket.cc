// Messages with file descriptors on Unix sockets.
#include "backends/node/descriptor_socket.hpp"

#include <fcntl.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::seams {

descriptor_list &descriptor_list::operator=(descriptor_list &&source) noexcept {
  std::swap(descriptors_, source.descriptors_);
  return *this;
}

descriptor_list::~descriptor_list() {
  for (int const descriptor : descriptors_) {
    if (descriptor >= 0)
      close(descriptor);
  }
}

}  // namespace tanada::seams

namespace tanada::backends {

owned_socket &owned_socket::operator=(owned_socket &&source) noexcept {
  std::swap(socket_, source.socket_);
  return *this;
}

owned_socket::~owned_socket() {
  if (socket_ >= 0)
    close(socket_);
}

descriptor_place descriptor_place_of(const seams::process_card &leader, std::string_view label) {
  descriptor_place place;
  auto &address = reinterpret_cast<sockaddr_un &>(place.address);
  address.sun_family = AF_UNIX;
  // The first byte is 0: an abstract name, which disappears with the socket.
  int const size = std::snprintf(address.sun_path + 1,
                                 sizeof address.sun_path - 1,
                                 "tanada-%016" PRIx64 "%016" PRIx64 "-%.*s",
                                 leader.name[0],
                                 leader.name[1],
                                 int(label.size()),
                                 label.data());
  TND_ASSERT(size > 0 && size_t(size) < sizeof address.sun_path - 1);
  place.size = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + size_t(size));
  return place;
}

status descriptor_send(int socket,
                       const descriptor_message &message,
                       std::span<const int> carried) {
  TND_ASSERT(carried.size() <= descriptors_in_message_max);
  iovec part{const_cast<descriptor_message *>(&message), sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * descriptors_in_message_max)]{};
  msghdr head{};
  head.msg_iov = &part;
  head.msg_iovlen = 1;
  if (!carried.empty()) {
    head.msg_control = control;
    head.msg_controllen = CMSG_SPACE(carried.size_bytes());
    cmsghdr *const rights = CMSG_FIRSTHDR(&head);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(carried.size_bytes());
    std::memcpy(CMSG_DATA(rights), carried.data(), carried.size_bytes());
  }
  if (sendmsg(socket, &head, MSG_DONTWAIT | MSG_NOSIGNAL) == ssize_t(sizeof message))
    return status::ok;
  switch (errno) {
    case EAGAIN:
    case EINTR:
    case ENOBUFS:
    case ENOMEM:
    case ETOOMANYREFS:
      return status::again;  // ETOOMANYREFS: too many of this user's descriptors are in flight
    case EBADF:
      return fail(status::bad_file, "a descriptor to send is not open");
    default:
      return status::peer_lost;
  }
}

status descriptor_receive(int socket,
                          descriptor_message &message,
                          seams::descriptor_list &carried) {
  iovec part{&message, sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * descriptors_in_message_max)];
  msghdr head{};
  head.msg_iov = &part;
  head.msg_iovlen = 1;
  head.msg_control = control;
  head.msg_controllen = sizeof control;
  ssize_t const size = recvmsg(socket, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0)
    return errno == EAGAIN || errno == EINTR || errno == ENOMEM ? status::again : status::peer_lost;
  for (cmsghdr *header = CMSG_FIRSTHDR(&head); header != nullptr;
       header = CMSG_NXTHDR(&head, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
      continue;
    for (size_t offset = 0; CMSG_LEN(offset + sizeof(int)) <= header->cmsg_len;
         offset += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + offset, sizeof descriptor);
      carried.push_back(descriptor);
    }
  }
  if (size == 0)
    return status::peer_lost;
  // The system closes descriptors that do not fit into this process's table.
  if ((head.msg_flags & MSG_CTRUNC) != 0)
    return fail(status::too_many_files,
                "cannot receive descriptors: too many open files (ulimit -n)");
  bool const whole = size == ssize_t(sizeof message) && (head.msg_flags & MSG_TRUNC) == 0;
  return whole && message.magic == descriptor_message::descriptor_magic ? status::ok
                                                                        : status::protocol;
}

bool is_of_this_user(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 &&
         credentials.uid == geteuid();
}

int descriptor_wait_ms(uint64_t deadline_ns) {
  uint64_t const now_ns = seams::monotonic_clock().now_ns();
  if (now_ns >= deadline_ns)
    return 0;
  return int(std::min<uint64_t>((deadline_ns - now_ns + 999'999) / 1'000'000, 50));
}

status descriptor_task::check_peers() const {
  if (int32_t const failed_rank = launcher.find_failed_rank(); failed_rank >= 0)
    return fail(status::peer_lost, "rank {} has failed", failed_rank);
  return status::ok;
}

status descriptor_duplicate(std::span<const int> descriptors, seams::descriptor_list &duplicates) {
  for (int const descriptor : descriptors) {
    int const duplicate = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (duplicate < 0) {
      return fail(errno == EMFILE ? status::too_many_files : status::bad_file,
                  "descriptor {} cannot be duplicated: {}",
                  descriptor,
                  std::strerror(errno));
    }
    duplicates.push_back(duplicate);
  }
  return status::ok;
}

}  // namespace tanada::backends
