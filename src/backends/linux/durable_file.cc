// backends/linux/durable_file.cc: replaces a file by another one, durably.
#include "seams/os/durable_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/base/log.hpp"

namespace tanada::seams {
namespace {

status fail_file(const std::string &path) {
  int const error = errno;
  return fail(status(-error), "{}: {}", path, std::strerror(error));
}

status write_file(const std::string &path, std::string_view text) {
  int const file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0)
    return fail_file(path);
  bool const is_written =
      write(file, text.data(), text.size()) == ssize_t(text.size()) && fsync(file) == 0;
  status const code = is_written ? status::ok : fail_file(path);
  close(file);
  return code;
}

status sync_folder(const std::string &path) {
  size_t const slash = path.rfind('/');
  std::string const folder =
      slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
  int const file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0)
    return fail_file(folder);
  status const code = fsync(file) == 0 ? status::ok : fail_file(folder);
  close(file);
  return code;
}

}  // namespace

status write_durable_file(const std::string &path, std::string_view text) {
  std::string const new_path = path + ".new";
  TND_TRY(write_file(new_path, text));
  if (std::rename(new_path.c_str(), path.c_str()) != 0)
    return fail_file(path);
  return sync_folder(path);
}

}  // namespace tanada::seams
