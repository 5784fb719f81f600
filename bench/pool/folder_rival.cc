#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "rival.hpp"

namespace bench {
namespace {

class open_file {
 public:
  open_file(const std::string &path, int flags)
      : path_{path}, number_{open(path.c_str(), flags, 0644)} {
    if (number_ < 0)
      throw std::runtime_error(path + " cannot be opened");
  }
  ~open_file() {
    if (number_ >= 0)
      ::close(number_);
  }
  int number() const {
    return number_;
  }
  // A network file system sends its last bytes here.
  void close() {
    if (::close(std::exchange(number_, -1)) != 0)
      throw std::runtime_error(path_ + " could not be written");
  }

 private:
  std::string path_;
  int number_;
};

// Moves all bytes by pread or pwrite.
template <class Call>
void move_all(uint64_t size, const Call &call) {
  for (uint64_t done = 0; done < size;) {
    ssize_t const moved = call(done, size - done);
    if (moved <= 0)
      throw std::runtime_error("a file in the folder ended or failed");
    done += uint64_t(moved);
  }
}

// Files that are written and closed, and read without the client's page cache.
class file_client final : public plain_client {
 public:
  explicit file_client(std::string folder) : folder_{std::move(folder)} {}

 protected:
  void put_once(const std::string &key, const uint8_t *source, uint64_t size) override {
    open_file file{path_of(key), O_WRONLY | O_CREAT | O_TRUNC};
    move_all(size, [&](uint64_t offset, uint64_t rest) {
      return pwrite(file.number(), source + offset, rest, off_t(offset));
    });
    file.close();
  }
  void get_once(const std::string &key, uint8_t *target, uint64_t size) override {
    open_file file{path_of(key), O_RDONLY};
    (void)posix_fadvise(file.number(), 0, 0, POSIX_FADV_DONTNEED);
    move_all(size, [&](uint64_t offset, uint64_t rest) {
      return pread(file.number(), target + offset, rest, off_t(offset));
    });
  }

 private:
  std::string path_of(const std::string &key) const {
    return folder_ + "/" + key;
  }

  std::string folder_;
};

class folder final : public rival {
 public:
  explicit folder(std::string path) : path_{std::move(path)} {
    if (path_.empty() || !std::filesystem::is_directory(path_))
      throw not_here("no folder " + path_);
  }
  std::unique_ptr<client> connect() override {
    return std::make_unique<file_client>(path_);
  }

 private:
  std::string path_;
};

}  // namespace

std::unique_ptr<rival> nfs_folder_rival(const rival_options &options) {
  return std::make_unique<folder>(options.nfs_folder);
}

std::unique_ptr<rival> nfs_rdma_folder_rival(const rival_options &options) {
  return std::make_unique<folder>(options.nfs_rdma_folder);
}

}  // namespace bench
