// backends/sockets/stream_set.cc: chooses the implementation of stream_set.
#include "seams/stream/stream_set.hpp"

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "core/base/log.hpp"

namespace tanada::seams {

result<std::unique_ptr<stream_set>> stream_set_create(const stream_set_options &options) {
  char const *const setting = std::getenv("TND_STREAM_ENGINE");
  std::string_view const kind = setting == nullptr || *setting == 0 ? "auto" : setting;
  if (kind == "auto" || kind == "epoll")
    return epoll_stream_set_create(options);
  if (kind != "io_uring")
    return fail(
        status::invalid, "TND_STREAM_ENGINE={} is invalid; use auto, io_uring or epoll", setting);
  auto created = uring_stream_set_create(options);
  if (created.ok())
    return created;
  static std::atomic<bool> is_logged = false;
  if (!is_logged.exchange(true))
    log(log_level::info, "io_uring is not available; using epoll for connections");
  return epoll_stream_set_create(options);
}

}  // namespace tanada::seams
