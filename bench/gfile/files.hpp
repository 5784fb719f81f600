// bench/gfile/files.hpp: files for the rows to read.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace bench {

// Creates a file of `size` bytes whose word at byte `at` is word_at(at).
void make_file(const std::string &path, uint64_t size);

// Such a file in a folder that should be on tmpfs, removed with this object.
class memory_backed_file {
 public:
  memory_backed_file(const std::string &folder, uint64_t size)
      : path_{folder + "/tanada-bench-" + std::to_string(getpid())} {
    make_file(path_, size);
    fd_ = open(path_.c_str(), O_RDONLY);
    if (fd_ < 0)
      throw std::runtime_error("cannot open " + path_);
  }
  ~memory_backed_file() {
    close(fd_);
    unlink(path_.c_str());
  }
  memory_backed_file(const memory_backed_file &) = delete;
  const std::string &path() const {
    return path_;
  }
  int fd() const {
    return fd_;
  }

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace bench
