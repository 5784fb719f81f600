// The ends of a copy that are files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "interruption.hpp"
#include "pool_copy.hpp"

namespace tanada::command {

namespace {

namespace fs = std::filesystem;

class descriptor {
 public:
  explicit descriptor(int file, bool is_owned = true) noexcept : file_{file}, is_owned_{is_owned} {}
  ~descriptor() {
    close();
  }
  descriptor(const descriptor &) = delete;
  descriptor &operator=(const descriptor &) = delete;
  int get() const noexcept {
    return file_;
  }
  // False: what was written may not be there.
  bool close() noexcept {
    int const file = std::exchange(file_, -1);
    return file < 0 || !is_owned_ || ::close(file) == 0;
  }

 private:
  int file_;
  bool is_owned_;
};

bool fail_errno(answer &told, const std::string &what) {
  int const error = errno;
  told.fail(what, -error, std::strerror(error));
  return false;
}

class file_source : public byte_source {
 public:
  file_source(std::string name, int file, bool is_owned, answer &told)
      : name_{std::move(name)}, file_{file, is_owned}, told_{told} {
    struct stat about{};
    if (::fstat(file, &about) == 0 && S_ISREG(about.st_mode))
      size_ = uint64_t(about.st_size);
  }

  bool read(void *target, size_t size, size_t &got) override {
    ssize_t count;
    do
      count = ::read(file_.get(), target, size);
    while (count < 0 && errno == EINTR);
    if (count < 0)
      return fail_errno(told_, name_);
    got = size_t(count);
    offset_ += got;
    return true;
  }

  bool verify(copy_outcome &) override {
    if (offset_ >= size_)
      return true;
    told_.fail(name_, -EIO, "it became shorter while it was read");
    return false;
  }

 private:
  std::string const name_;
  descriptor file_;
  answer &told_;
  uint64_t size_ = 0, offset_ = 0;
};

// Writes beside the target and takes its name at the end; what is no regular file is written as it
// is.
class file_target : public byte_target {
 public:
  file_target(std::string path, bool replace, answer &told)
      : path_{std::move(path)}, replace_{replace}, told_{told} {}
  ~file_target() override {
    if (!new_path_.empty())
      ::unlink(new_path_.c_str());
  }

  bool open() {
    struct stat about{};
    bool const exists = ::stat(path_.c_str(), &about) == 0;
    if (exists && !replace_) {
      errno = EEXIST;
      return fail_errno(told_, path_);
    }
    if (exists && !S_ISREG(about.st_mode)) {
      file_.emplace(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
      return file_->get() >= 0 || fail_errno(told_, path_);
    }
    std::error_code ignored;
    if (exists)
      path_ = fs::canonical(path_, ignored).string();  // through a link, as cp does
    std::string const beside = path_ + ".tanada-" + std::to_string(::getpid());
    on_interruption_.emplace(beside);
    file_.emplace(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file_->get() < 0)
      return fail_errno(told_, path_);
    new_path_ = beside;
    if (exists)
      (void)!::fchmod(file_->get(), about.st_mode & 07777);
    return true;
  }

  bool write(const void *source, size_t size) override {
    for (auto at = static_cast<const char *>(source); size > 0;) {
      ssize_t const count = ::write(file_->get(), at, size);
      if (count < 0 && errno == EINTR)
        continue;
      if (count < 0)
        return fail_errno(told_, path_);
      at += count;
      size -= size_t(count);
    }
    return true;
  }

  bool finish(copy_outcome &) override {
    if (!file_->close())
      return fail_errno(told_, path_);
    if (new_path_.empty())
      return true;
    // link() does not replace what came there in the meantime; rename() does.
    int const done = replace_ ? ::rename(new_path_.c_str(), path_.c_str())
                              : ::link(new_path_.c_str(), path_.c_str());
    if (done != 0)
      return fail_errno(told_, path_);
    if (replace_)
      new_path_.clear();
    return true;
  }

 private:
  std::string path_, new_path_;
  bool const replace_;
  answer &told_;
  std::optional<interruption_file> on_interruption_;
  std::optional<descriptor> file_;
};

class standard_output : public byte_target {
 public:
  explicit standard_output(answer &told) : told_{told} {}
  bool write(const void *source, size_t size) override {
    return std::fwrite(source, 1, size, stdout) == size || fail_errno(told_, "standard output");
  }
  bool finish(copy_outcome &) override {
    return std::fflush(stdout) == 0 || fail_errno(told_, "standard output");
  }

 private:
  answer &told_;
};

}  // namespace

std::unique_ptr<byte_source> source_open(const place &at, const copy_options &how,
                                         pool_session &session, answer &told) {
  if (at.is_pool)
    return object_source_open(at, how, session, told);
  if (at.is_standard())
    return std::make_unique<file_source>("standard input", STDIN_FILENO, false, told);
  int const file = ::open(at.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    fail_errno(told, at.path);
    return nullptr;
  }
  return std::make_unique<file_source>(at.path, file, true, told);
}

std::unique_ptr<byte_target> target_open(const copy_item &item, const copy_options &how,
                                         pool_session &session, answer &told) {
  place const &at = item.target;
  if (at.is_pool)
    return object_target_open(item, how, session, told);
  if (at.is_standard())
    return std::make_unique<standard_output>(told);
  auto target = std::make_unique<file_target>(at.path, how.replace, told);
  if (!target->open())
    return nullptr;
  return target;
}

}  // namespace tanada::command
