// backends/linux/record_file.cc: replaces the content of a small file atomically for readers.
#include "seams/os/record_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::seams {
namespace {

constexpr mode_t readable_by_all = 0666;  // minus the umask

class file_handle {
 public:
  explicit file_handle(int number) : number_{number} {}
  ~file_handle() {
    if (number_ >= 0)
      ::close(number_);
  }
  file_handle(const file_handle &) = delete;
  file_handle &operator=(const file_handle &) = delete;
  int get() const {
    return number_;
  }

 private:
  int const number_;
};

status fail_write(const std::string &path) {
  int const error = errno;
  set_last_message("cannot write " + path + ": " + std::strerror(error));
  return status{-error};
}

bool write_whole(int file, std::string_view text) {
  ssize_t const count = pwrite(file, text.data(), text.size(), 0);
  if (count >= 0 && size_t(count) < text.size())
    errno = ENOSPC;
  return count == ssize_t(text.size());
}

bool has_size(int file, size_t size) {
  struct stat about{};
  return fstat(file, &about) == 0 && size_t(about.st_size) == size;
}

status lock(int file, const std::string &path, uint64_t timeout_ns) {
  using clock = std::chrono::steady_clock;
  auto const deadline = clock::now() + std::chrono::nanoseconds{timeout_ns};
  while (flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR)
      continue;
    if (errno != EWOULDBLOCK)
      return status::ok;  // this file system does not support locks
    if (clock::now() >= deadline) {
      set_last_message("cannot write " + path + ": a reader holds a lock");
      return status::again;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return status::ok;
}

std::string folder_of(const std::string &path) {
  size_t const slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return path.substr(0, std::max<size_t>(slash, 1));
}

bool remove(const std::string &path) {
  return unlink(path.c_str()) == 0 || errno == ENOENT;
}

// The bytes are in the file system before the old file is removed. errno is EEXIST if another
// writer was faster.
bool create(const std::string &path, std::string_view text) {
  std::string const folder = folder_of(path);
  file_handle const unnamed{
      open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, readable_by_all)};
  if (unnamed.get() >= 0) {
    if (!write_whole(unnamed.get(), text) || !remove(path))
      return false;
    std::string const link = "/proc/self/fd/" + std::to_string(unnamed.get());
    if (linkat(AT_FDCWD, link.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0)
      return true;
    if (errno == EEXIST)
      return false;
  }
  // On a file system without unnamed files, or without /proc, a crash may leave an empty file under
  // the name.
  if (!remove(path))
    return false;
  constexpr int flags = O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC;
  file_handle const named{open(path.c_str(), flags, readable_by_all)};
  return named.get() >= 0 && write_whole(named.get(), text);
}

}  // namespace

status replace_record(const std::string &path, std::string_view text, uint64_t timeout_ns) {
  TND_ASSERT(text.size() <= record_size_max);
  constexpr int tries = 8;  // another writer may create the file between two steps
  for (int i = 0; i < tries; i++) {
    {
      file_handle const file{open(path.c_str(), O_WRONLY | O_CLOEXEC)};
      if (file.get() >= 0 && has_size(file.get(), text.size())) {
        TND_TRY(lock(file.get(), path, timeout_ns));
        return write_whole(file.get(), text) ? status::ok : fail_write(path);
      }
    }
    if (create(path, text))
      return status::ok;
    if (errno != EEXIST)
      return fail_write(path);
  }
  return fail_write(path);
}

}  // namespace tanada::seams
