// The reserve as a file whose blocks are allocated.
#include "products/poold/log/reserve_file.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "seams/store/errno_status.hpp"

namespace tanada::pool {

status reserve_file::acquire() {
  int const fd = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0)
    return seams::errno_status(errno);
  int error = 0;
  do {
    error = posix_fallocate(fd, 0, off_t(size_));
  } while (error == EINTR);
  if (error == 0 && ftruncate(fd, off_t(size_)) != 0)
    error = errno;
  close(fd);
  if (error == 0)
    return status::ok;
  (void)unlink(path_.c_str());  // a partial reserve is useless, and others may need the space
  return seams::errno_status(error);
}

status reserve_file::release() {
  bool const is_gone = unlink(path_.c_str()) == 0 || errno == ENOENT;
  return is_gone ? status::ok : seams::errno_status(errno);
}

uint64_t reserve_file::free_size() const {
  struct statvfs file_system{};
  if (statvfs(folder_.c_str(), &file_system) != 0)
    return 0;
  return uint64_t{file_system.f_bavail} * file_system.f_frsize;
}

uint64_t file_system_size(const std::string &folder) {
  struct statvfs file_system{};
  bool const is_known = statvfs(folder.c_str(), &file_system) == 0 && file_system.f_blocks != 0;
  return is_known ? uint64_t{file_system.f_blocks} * file_system.f_frsize : ~uint64_t{0};
}

}  // namespace tanada::pool
