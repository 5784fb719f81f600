#include <fcntl.h>
#include <unistd.h>

#include "port/store/gfarm/gfarm_engine.hpp"

// Exported by libgfarm.so.1, in no header of it.
extern "C" {
gfarm_error_t gfs_pio_view_fd(GFS_File, int *);
gfarm_error_t gfs_pio_internal_set_view_section(GFS_File, char *);
}

namespace tanada::port {

gfarm_handle &gfarm_handle::operator=(gfarm_handle &&other) noexcept {
  (void)close();
  file_ = std::exchange(other.file_, nullptr);
  return *this;
}

gfarm_error_t gfarm_handle::open(const std::string &url, store_open_flags flags) {
  int const bits = GFARM_FILE_UNBUFFERED | (flags.write ? GFARM_FILE_RDWR : GFARM_FILE_RDONLY) |
                   (flags.truncate ? GFARM_FILE_TRUNC : 0) | (flags.exclusive ? GFARM_FILE_EXCLUSIVE : 0);
  GFS_File file = nullptr;
  auto const error = flags.create ? gfs_pio_create(url.c_str(), bits, 0644, &file)
                                  : gfs_pio_open(url.c_str(), bits, &file);
  if (error == GFARM_ERR_NO_ERROR) file_ = file;
  return error;
}

gfarm_error_t gfarm_handle::close() {
  return file_ != nullptr ? gfs_pio_close(std::exchange(file_, nullptr)) : GFARM_ERR_NO_ERROR;
}

int gfarm_handle::connect() const noexcept {
  int descriptor = -1;
  if (gfs_pio_view_fd(file_, &descriptor) != GFARM_ERR_NO_ERROR || descriptor < 0) return -1;
  return fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
}

gfarm_error_t gfarm_handle::prefer(const std::string &host) {
  return gfs_pio_internal_set_view_section(file_, const_cast<char *>(host.c_str()));
}

gfarm_file::~gfarm_file() {
  if (descriptor >= 0) ::close(descriptor);
}

}  // namespace tanada::port
