#include "seams/stream/stream_set.hpp"

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "core/base/log.hpp"

namespace tanada::port {

result<std::unique_ptr<stream_set>> stream_set_create(const stream_set_options &options) {
  char const *const said = std::getenv("TND_STREAM_ENGINE");
  std::string_view const kind = said == nullptr || *said == 0 ? "auto" : said;
  if (kind == "auto" || kind == "epoll")
    return epoll_stream_set_create(options);
  if (kind != "io_uring")
    return fail(status::invalid, "TND_STREAM_ENGINE=%s is none of auto, io_uring, epoll", said);
  auto made = uring_stream_set_create(options);
  if (made.ok())
    return made;
  static std::atomic<bool> is_said = false;
  if (!is_said.exchange(true))
    log(log_level::info, "connections are driven by epoll: io_uring is refused here");
  return epoll_stream_set_create(options);
}

}  // namespace tanada::port
