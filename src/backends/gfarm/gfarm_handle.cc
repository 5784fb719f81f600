// backends/gfarm/gfarm_handle.cc: one handle of libgfarm, and the cache of its connection errors.
#include <fcntl.h>
#include <unistd.h>

#include "backends/gfarm/gfarm_engine.hpp"

#include "core/base/mutex.hpp"

// Exported by libgfarm.so.1 but declared in none of its headers.
extern "C" {
gfarm_error_t gfs_pio_view_fd(GFS_File, int *);
gfarm_error_t gfs_pio_internal_set_view_section(GFS_File, char *);
int gfm_client_is_connection_error(gfarm_error_t);
}

namespace tanada::backends {

gfarm_handle &gfarm_handle::operator=(gfarm_handle &&source) noexcept {
  (void)close();
  file_ = std::exchange(source.file_, nullptr);
  error_ = GFARM_ERR_NO_ERROR;
  return *this;
}

gfarm_error_t gfarm_handle::known_error() const {
  lock_guard const lock{mutex_};
  if (error_ != GFARM_ERR_NO_ERROR && std::chrono::steady_clock::now() >= known_until_)
    error_ = GFARM_ERR_NO_ERROR;
  return error_;
}

void gfarm_handle::note_error(gfarm_error_t error,
                              std::chrono::steady_clock::time_point begin) const {
  if (error != GFARM_ERR_NO_FILESYSTEM_NODE && gfm_client_is_connection_error(error) == 0)
    return;
  auto const time = std::chrono::steady_clock::now();
  lock_guard const lock{mutex_};
  error_ = error;
  known_until_ = time + (time - begin);
}

gfarm_error_t gfarm_handle::open(const std::string &url, seams::store_open_flags flags) {
  TND_ASSERT(!is_open());
  int const bits = GFARM_FILE_UNBUFFERED | (flags.write ? GFARM_FILE_RDWR : GFARM_FILE_RDONLY) |
                   (flags.truncate ? GFARM_FILE_TRUNC : 0) |
                   (flags.exclusive ? GFARM_FILE_EXCLUSIVE : 0);
  GFS_File file = nullptr;
  auto const error = gfarm_calls::process_instance().by_name(url, [&] {
    return flags.create ? gfs_pio_create(url.c_str(), bits, 0644, &file)
                        : gfs_pio_open(url.c_str(), bits, &file);
  });
  if (error == GFARM_ERR_NO_ERROR)
    file_ = file;
  return error;
}

gfarm_error_t gfarm_handle::close() {
  if (file_ == nullptr)
    return GFARM_ERR_NO_ERROR;
  return gfarm_calls::process_instance().once(
      [this] { return gfs_pio_close(std::exchange(file_, nullptr)); });
}

int gfarm_handle::connect() const noexcept {
  int descriptor = -1;
  int copy = -1;
  (void)call([&](GFS_File file) {
    auto const error = gfs_pio_view_fd(file, &descriptor);
    if (error == GFARM_ERR_NO_ERROR && descriptor >= 0)
      copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    return error;
  });
  return copy;
}

gfarm_error_t gfarm_handle::prefer(const std::string &host) {
  return call([&](GFS_File file) {
    return gfs_pio_internal_set_view_section(file, const_cast<char *>(host.c_str()));
  });
}

gfarm_file::~gfarm_file() {
  if (descriptor >= 0)
    ::close(descriptor);
}

}  // namespace tanada::backends
