// Owner and mode of files with keys and tokens.
#include "seams/os/secret_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/log.hpp"

namespace tanada::seams {

status check_secret_file(const std::string &path, const std::string &kind) {
  struct stat about{};
  if (stat(path.c_str(), &about) != 0)
    return fail(status(-errno), "{} {}: {}", kind, path, std::strerror(errno));
  if ((about.st_mode & 077) != 0)
    return fail(status::access, "{} {}: others may read it: chmod 600 it", kind, path);
  // Its owner could add keys.
  if (about.st_uid != geteuid() && about.st_uid != 0)
    return fail(status::access,
                "{} {}: it belongs to user {}: chown it to this user or root",
                kind,
                path,
                about.st_uid);
  return status::ok;
}

}  // namespace tanada::seams
