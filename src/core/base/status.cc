// Names and descriptions of statuses, and the version.
#include <tanada/device/detail/base/status.hpp>

#include <tanada/status.h>
#include <tanada/version.h>

#include <cerrno>
#include <cstring>

namespace tanada {

static_assert(int(status::not_permitted) == -EPERM && int(status::no_entry) == -ENOENT);
static_assert(int(status::interrupted) == -EINTR && int(status::io) == -EIO);
static_assert(int(status::bad_file) == -EBADF && int(status::again) == -EAGAIN);
static_assert(int(status::no_memory) == -ENOMEM && int(status::access) == -EACCES);
static_assert(int(status::fault) == -EFAULT && int(status::busy) == -EBUSY);
static_assert(int(status::exists) == -EEXIST && int(status::no_device) == -ENODEV);
static_assert(int(status::is_directory) == -EISDIR && int(status::invalid) == -EINVAL);
static_assert(int(status::too_many_files) == -EMFILE && int(status::too_big) == -EFBIG);
static_assert(int(status::no_space) == -ENOSPC && int(status::read_only) == -EROFS);
static_assert(int(status::range) == -ERANGE && int(status::name_too_long) == -ENAMETOOLONG);
static_assert(int(status::not_implemented) == -ENOSYS && int(status::overflow) == -EOVERFLOW);
static_assert(int(status::protocol) == -EPROTO && int(status::not_supported) == -EOPNOTSUPP);
static_assert(int(status::timed_out) == -ETIMEDOUT && int(status::stale) == -ESTALE);
static_assert(int(status::canceled) == -ECANCELED && int(status::corrupt) == -TND_ECORRUPT);
static_assert(int(status::peer_lost) == -TND_EPEER && int(status::device_lost) == -TND_EDEVICE);
static_assert(int(status::no_plugin) == -TND_ENOPLUGIN && int(status::bad_state) == -TND_ESTATE);

}  // namespace tanada

const char *tnd_status_name(tnd_status value) noexcept {
  switch (value) {
    case TND_OK:
      return "OK";
    case -TND_ECORRUPT:
      return "TND_ECORRUPT";
    case -TND_EPEER:
      return "TND_EPEER";
    case -TND_EDEVICE:
      return "TND_EDEVICE";
    case -TND_ENOPLUGIN:
      return "TND_ENOPLUGIN";
    case -TND_ESTATE:
      return "TND_ESTATE";
    default:
      break;
  }
  const char *name = value < 0 && value > -256 ? strerrorname_np(-value) : nullptr;
  return name != nullptr ? name : "EUNKNOWN";
}

const char *tnd_status_text(tnd_status value) noexcept {
  switch (value) {
    case TND_OK:
      return "Success";
    case -TND_ECORRUPT:
      return "A checksum did not match";
    case -TND_EPEER:
      return "The remote process died or restarted";
    case -TND_EDEVICE:
      return "The GPU context is lost";
    case -TND_ENOPLUGIN:
      return "A plugin or the package behind it is missing";
    case -TND_ESTATE:
      return "The call came in the wrong order";
    default:
      break;
  }
  const char *text = value < 0 && value > -256 ? strerrordesc_np(-value) : nullptr;
  return text != nullptr ? text : "Unknown status";
}

const char *tnd_version() noexcept {
  return TND_VERSION_STRING;
}
