// backends/sockets/shared_socket.cc: gives a stream_set a duplicate of a program's socket.
#include "backends/sockets/shared_socket.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "backends/sockets/socket_options.hpp"
#include "core/base/log.hpp"

namespace tanada::backends {

namespace {

status check_connected_stream(int socket) {
  if (fcntl(socket, F_GETFL) < 0)
    return fail(status::bad_file, "socket {}: {}", socket, std::strerror(errno));
  int kind = 0;
  socklen_t size = sizeof kind;
  sockaddr_storage peer{};
  socklen_t peer_size = sizeof peer;
  bool const is_stream =
      getsockopt(socket, SOL_SOCKET, SO_TYPE, &kind, &size) == 0 && kind == SOCK_STREAM;
  if (!is_stream || getpeername(socket, reinterpret_cast<sockaddr *>(&peer), &peer_size) != 0)
    return fail(status::invalid, "descriptor {} is not a connected stream socket", socket);
  return status::ok;
}

}  // namespace

status prepare_shared(int socket) {
  TND_TRY(check_connected_stream(socket));
  socket_tune(socket, {});
  return status::ok;
}

result<seams::stream_id> adopt_shared(seams::stream_set &set, int socket, uint64_t word) {
  TND_TRY(check_connected_stream(socket));
  int const flags = fcntl(socket, F_GETFL);
  int const duplicate = fcntl(socket, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0)
    return fail(
        socket_status(errno), "socket {} cannot be duplicated: {}", socket, std::strerror(errno));
  auto const id = set.adopt(duplicate, word);
  fcntl(socket, F_SETFL, flags);  // the set may have set O_NONBLOCK, which duplicates share
  return id;
}

}  // namespace tanada::backends
