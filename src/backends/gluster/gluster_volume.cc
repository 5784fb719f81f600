// backends/gluster/gluster_volume.cc: parses URLs of GlusterFS and connects to volumes.
#include "backends/gluster/gluster_volume.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"
#include "seams/store/errno_status.hpp"

namespace tanada::backends {
namespace {
constexpr size_t volume_count_max = 64;
constexpr std::string_view prefix = "gluster://";

// Splits HOST[:PORT]. Without a port, `port` stays unchanged.
status parse_server(std::string_view server, std::string &host, int &port) {
  if (size_t const colon = server.rfind(':'); colon != std::string_view::npos) {
    std::string_view const digits = server.substr(colon + 1);
    auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    bool const whole = error == std::errc{} && end == digits.data() + digits.size();
    if (!whole || port < 1 || port > 65535)
      return status::invalid;
    server = server.substr(0, colon);
  }
  host = server;
  return server.empty() ? status::invalid : status::ok;
}

}  // namespace

status gluster_url::parse(const std::string &url, gluster_url &parts) {
  std::string_view rest = url;
  if (!rest.starts_with(prefix))
    return status::invalid;
  rest.remove_prefix(prefix.size());
  size_t const host_end = rest.find('/');
  if (host_end == std::string_view::npos)
    return status::invalid;
  TND_TRY(parse_server(rest.substr(0, host_end), parts.host, parts.port));
  rest.remove_prefix(host_end + 1);
  size_t const volume_end = rest.find('/');
  if (volume_end == std::string_view::npos || volume_end == 0)
    return status::invalid;
  parts.volume = rest.substr(0, volume_end);
  parts.path = rest.substr(volume_end);
  TND_ASSERT(parts.path.starts_with('/'));
  return status::ok;
}

status gluster_volumes::find(const gluster_url &url, glfs_t *&volume) {
  std::string const name = url.host + ":" + std::to_string(url.port) + "/" + url.volume;
  lock_guard const lock{mutex_};
  if (auto const known = connected_.find(name); known != connected_.end()) {
    volume = known->second;
    return status::ok;
  }
  if (connected_.size() >= volume_count_max)
    return status::too_many_files;
  TND_TRY(connect(url, volume));
  connected_[name] = volume;
  return status::ok;
}

status gluster_volumes::connect(const gluster_url &url, glfs_t *&volume) const {
  TND_ASSERT(mutex_.is_held());
  glfs_t *const opened = glfs_new(url.volume.c_str());
  if (opened == nullptr)
    return seams::errno_status(errno);
  (void)glfs_set_logging(opened, "/dev/null", 1);  // errors are returned as values
  bool const set = glfs_set_volfile_server(opened, "tcp", url.host.c_str(), url.port) == 0;
  if (set && glfs_init(opened) == 0) {
    volume = opened;
    return status::ok;
  }
  int const number = errno;
  host_.log(2,
            ("gluster: volume " + url.volume + " at " + url.host + ":" + std::to_string(url.port) +
             ": " + std::strerror(number))
                .c_str());
  (void)glfs_fini(opened);
  status const code = seams::errno_status(number);
  return code == status::no_entry ? status::invalid
                                  : code;  // the volume is missing, not a file of the caller
}

}  // namespace tanada::backends
