// backends/linux/service_manager.cc: the protocol of sd_notify(3), a datagram to a socket.
#include "seams/os/service_manager.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

namespace tanada::seams {

bool notify_service_manager(std::string_view lines) {
  const char *const name = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  size_t const size = name == nullptr ? 0 : std::strlen(name);
  bool const is_usable =
      size > 1 && size < sizeof address.sun_path && (name[0] == '/' || name[0] == '@');
  if (!is_usable)
    return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name, size);
  if (name[0] == '@')
    address.sun_path[0] = '\0';  // a name without a file
  int const socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0)
    return false;
  auto const sent = ::sendto(socket,
                             lines.data(),
                             lines.size(),
                             MSG_NOSIGNAL | MSG_DONTWAIT,
                             reinterpret_cast<const sockaddr *>(&address),
                             socklen_t(offsetof(sockaddr_un, sun_path) + size));
  ::close(socket);
  return sent == ssize_t(lines.size());
}

bool notify_reloading() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  uint64_t const now_us = uint64_t(time.tv_sec) * 1'000'000 + uint64_t(time.tv_nsec) / 1000;
  return notify_service_manager("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(now_us));
}

std::string credential_path(std::string_view name) {
  const char *const folder = std::getenv("CREDENTIALS_DIRECTORY");
  if (folder == nullptr || folder[0] != '/')
    return {};
  std::filesystem::path const path = std::filesystem::path{folder} / name;
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) ? path.string() : std::string{};
}

}  // namespace tanada::seams
