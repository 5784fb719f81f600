// cmd/tanada/pool_copy_file.cc: files as source or target of a copy.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/assert.hpp"
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
  // Returns false if written data may be lost.
  bool close() noexcept {
    int const file = std::exchange(file_, -1);
    return file < 0 || !is_owned_ || ::close(file) == 0;
  }

 private:
  int file_;
  bool is_owned_;
};

bool fail_errno(command_report &report, const std::string &subject) {
  int const error = errno;
  report.fail(subject, -error, std::strerror(error));
  return false;
}

class file_source : public byte_source {
 public:
  file_source(std::string name, int file, bool is_owned, command_report &report)
      : name_{std::move(name)}, file_{file, is_owned}, report_{report} {
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
      return fail_errno(report_, name_);
    got = size_t(count);
    offset_ += got;
    return true;
  }

  bool verify(copy_outcome &) override {
    if (offset_ >= size_)
      return true;
    report_.fail(name_, -EIO, "the file became shorter while it was read");
    return false;
  }

 private:
  std::string const name_;
  descriptor file_;
  command_report &report_;
  uint64_t size_ = 0, offset_ = 0;
};

// Writes a new file beside the target and renames it at the end. A target that is not a regular
// file is written directly.
class file_target : public byte_target {
 public:
  file_target(std::string path, bool replace, command_report &report)
      : path_{std::move(path)}, replace_{replace}, report_{report} {}
  ~file_target() override {
    if (!new_path_.empty())
      ::unlink(new_path_.c_str());
  }

  bool open() {
    TND_ASSERT(!file_ && new_path_.empty());
    struct stat about{};
    bool const exists = ::stat(path_.c_str(), &about) == 0;
    if (exists && !replace_) {
      errno = EEXIST;
      return fail_errno(report_, path_);
    }
    if (exists && !S_ISREG(about.st_mode)) {
      file_.emplace(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
      return file_->get() >= 0 || fail_errno(report_, path_);
    }
    std::error_code ignored;
    if (exists)
      path_ = fs::canonical(path_, ignored).string();  // follows a link, as cp does
    std::string const beside = path_ + ".tanada-" + std::to_string(::getpid());
    on_interruption_.emplace(beside);
    file_.emplace(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file_->get() < 0)
      return fail_errno(report_, path_);
    new_path_ = beside;
    if (exists)
      (void)!::fchmod(file_->get(), about.st_mode & 07777);
    return true;
  }

  bool write(const void *source, size_t size) override {
    TND_ASSERT(file_ && file_->get() >= 0);
    for (auto position = static_cast<const char *>(source); size > 0;) {
      ssize_t const count = ::write(file_->get(), position, size);
      if (count < 0 && errno == EINTR)
        continue;
      if (count < 0)
        return fail_errno(report_, path_);
      position += count;
      size -= size_t(count);
    }
    return true;
  }

  bool finish(copy_outcome &) override {
    TND_ASSERT(file_);
    if (!file_->close())
      return fail_errno(report_, path_);
    if (new_path_.empty())
      return true;
    // Unlike rename(), link() does not replace a file that was created meanwhile.
    int const done = replace_ ? ::rename(new_path_.c_str(), path_.c_str())
                              : ::link(new_path_.c_str(), path_.c_str());
    if (done != 0)
      return fail_errno(report_, path_);
    if (replace_)
      new_path_.clear();
    return true;
  }

 private:
  std::string path_, new_path_;
  bool const replace_;
  command_report &report_;
  std::optional<interruption_file> on_interruption_;
  std::optional<descriptor> file_;
};

class standard_output : public byte_target {
 public:
  explicit standard_output(command_report &report) : report_{report} {}
  bool write(const void *source, size_t size) override {
    return std::fwrite(source, 1, size, stdout) == size || fail_errno(report_, "standard output");
  }
  bool finish(copy_outcome &) override {
    return std::fflush(stdout) == 0 || fail_errno(report_, "standard output");
  }

 private:
  command_report &report_;
};

}  // namespace

std::unique_ptr<byte_source> source_open(const location &source,
                                         const copy_options &settings,
                                         pool_session &session,
                                         command_report &report) {
  if (source.is_pool)
    return object_source_open(source, settings, session, report);
  if (source.is_standard())
    return std::make_unique<file_source>("standard input", STDIN_FILENO, false, report);
  int const file = ::open(source.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    fail_errno(report, source.path);
    return nullptr;
  }
  return std::make_unique<file_source>(source.path, file, true, report);
}

std::unique_ptr<byte_target> target_open(const copy_item &item,
                                         const copy_options &settings,
                                         pool_session &session,
                                         command_report &report) {
  location const &destination = item.target;
  if (destination.is_pool)
    return object_target_open(item, settings, session, report);
  if (destination.is_standard())
    return std::make_unique<standard_output>(report);
  auto target = std::make_unique<file_target>(destination.path, settings.replace, report);
  if (!target->open())
    return nullptr;
  return target;
}

}  // namespace tanada::command
