// backends/linux/file_buffer.cc: a memory buffer whose pages belong to an unnamed file.
#include "seams/os/file_buffer.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/log.hpp"

namespace tanada::seams {
namespace {

constexpr mode_t owner_only = 0600;

status fail_create(const std::string &folder, int error) {
  set_last_message("cannot allocate memory in a file of " + folder + ": " + std::strerror(error));
  return status{-error};
}

}  // namespace

// Writing to a page for which the file system has no space would end the process, so the space is
// allocated first.
result<std::unique_ptr<file_buffer>> file_buffer::create(const std::string &folder, size_t size) {
  int const file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, owner_only);
  if (file < 0)
    return fail_create(folder, errno);
  int error = posix_fallocate(file, 0, off_t(size));
  void *memory = MAP_FAILED;
  if (error == 0) {
    memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
      error = errno;
  }
  close(file);
  if (error != 0)
    return fail_create(folder, error);
  return std::unique_ptr<file_buffer>{new file_buffer{static_cast<std::byte *>(memory), size}};
}

file_buffer::~file_buffer() {
  munmap(data_, size_);
}

}  // namespace tanada::seams
