#include "seams/os/file_buffer.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/log.hpp"

namespace tanada::port {
namespace {

constexpr mode_t owner_only = 0600;

status refuse(const std::string &folder, int error) {
  set_last_message("no memory in a file of " + folder + ": " + std::strerror(error));
  return status{-error};
}

}  // namespace

// A page that the file system has no room for when it is written would end the process: the room
// is allocated first.
result<std::unique_ptr<file_buffer>> file_buffer::create(const std::string &folder, size_t size) {
  int const file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, owner_only);
  if (file < 0)
    return refuse(folder, errno);
  int error = posix_fallocate(file, 0, off_t(size));
  void *memory = MAP_FAILED;
  if (error == 0) {
    memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
      error = errno;
  }
  close(file);
  if (error != 0)
    return refuse(folder, error);
  return std::unique_ptr<file_buffer>{new file_buffer{static_cast<std::byte *>(memory), size}};
}

file_buffer::~file_buffer() {
  munmap(data_, size_);
}

}  // namespace tanada::port
