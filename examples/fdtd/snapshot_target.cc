#include "snapshot_target.hpp"

#include <fcntl.h>
#include <tanada/pool.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace fdtd {
namespace {

const std::string pool_scheme = "pool://", file_scheme = "file://";

bool starts_with(const std::string &text, const std::string &start) {
  return text.compare(0, start.size(), start) == 0;
}

std::string with_slash(std::string folder) {
  if (!folder.empty() && folder.back() != '/')
    folder += '/';
  return folder;
}

class pool_target : public snapshot_target {
 public:
  pool_target(const std::string &url, bool on_gpu) : url_(with_slash(url)), on_gpu_(on_gpu) {
    // pool://host:port/namespace/prefix: the part up to the namespace is for tnd_pool_connect(),
    // and the prefix begins the objects' names.
    std::size_t const host_end = url_.find('/', pool_scheme.size());
    std::size_t const space_end = url_.find('/', host_end + 1);
    if (host_end == std::string::npos || space_end == std::string::npos)
      throw std::runtime_error(url + ": want pool://host:port/namespace/prefix");
    prefix_ = url_.substr(space_end + 1);
    check(tnd_pool_connect(url_.c_str(), nullptr, &pool_), "connect to", "");
  }
  pool_target(const pool_target &) = delete;
  pool_target &operator=(const pool_target &) = delete;
  ~pool_target() override {
    tnd_pool_disconnect(pool_);
  }

  bool takes_device_memory() const override {
    return true;
  }

  void put(const std::string &name, const void *bytes, std::uint64_t size) override {
    std::string const object_name = prefix_ + name;
    tnd_pool_commit_options options = TND_POOL_COMMIT_OPTIONS_INIT;
    options.checksum_kind = TND_POOL_CHECKSUM_CRC32C;
    if (!on_gpu_) {
      // The checksum is computed here, while the bytes go to the pool.
      check(tnd_pool_put(pool_, object_name.c_str(), bytes, size, 0, &options), "put", name);
      return;
    }
    tnd_pool_object *made = nullptr;
    check(tnd_pool_create(pool_, object_name.c_str(), size, 0, nullptr, &made), "create", name);
    // An object that is closed without a commit is dropped.
    std::unique_ptr<tnd_pool_object, decltype(&tnd_pool_close)> const object(made, tnd_pool_close);
    check(tnd_pool_write(object.get(), 0, bytes, size, TND_POOL_MEMORY_DEVICE), "write", name);
    // The daemon computed the checksum of the bytes that arrived.
    check(tnd_pool_commit(object.get(), &options, nullptr), "commit", name);
  }

  void get(const std::string &name, void *bytes, std::uint64_t size) override {
    std::uint64_t found = 0;
    check(tnd_pool_get(pool_, (prefix_ + name).c_str(), bytes, size, &found, TND_POOL_VERIFY),
          "read",
          name);
    if (found != size)
      throw std::runtime_error(url_ + name + " has " + std::to_string(found) + " bytes");
  }

 private:
  void check(tnd_status code, const char *what, const std::string &name) const {
    if (code == TND_OK)
      return;
    const char *const message = tnd_last_message();
    throw std::runtime_error(std::string("cannot ") + what + " " + url_ + name + ": " +
                             tnd_status_name(code) + " (" +
                             (*message != 0 ? message : tnd_status_text(code)) + ")");
  }

  std::string url_, prefix_;
  bool on_gpu_;
  tnd_pool *pool_ = nullptr;
};

[[noreturn]] void throw_errno(const std::string &what, const std::string &path) {
  throw std::runtime_error("cannot " + what + " " + path + ": " + std::strerror(errno));
}

class descriptor {
 public:
  explicit descriptor(int value) : value_(value) {}
  descriptor(const descriptor &) = delete;
  descriptor &operator=(const descriptor &) = delete;
  ~descriptor() {
    if (value_ >= 0)
      (void)::close(value_);
  }
  int get() const {
    return value_;
  }
  int close() {
    return ::close(std::exchange(value_, -1));
  }

 private:
  int value_;
};

// Files get their names when they are complete. They are as durable as write() makes them, in the
// system's page cache.
class folder_target : public snapshot_target {
 public:
  explicit folder_target(std::string folder) : folder_(with_slash(std::move(folder))) {
    if (::access(folder_.c_str(), W_OK) != 0)
      throw_errno("write snapshots to", folder_);
  }

  bool takes_device_memory() const override {
    return false;
  }

  void put(const std::string &name, const void *bytes, std::uint64_t size) override {
    std::string const path = folder_ + name, unfinished = path + ".part";
    try {
      descriptor file(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
      if (file.get() < 0)
        throw_errno("create", unfinished);
      write_all(file.get(), unfinished, bytes, size);
      if (file.close() != 0)
        throw_errno("write", unfinished);
      if (std::rename(unfinished.c_str(), path.c_str()) != 0)
        throw_errno("rename", unfinished);
    } catch (...) {
      (void)std::remove(unfinished.c_str());
      throw;
    }
  }

  void get(const std::string &name, void *bytes, std::uint64_t size) override {
    std::string const path = folder_ + name;
    descriptor const file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0)
      throw_errno("open", path);
    for (std::uint64_t done = 0; done < size;) {
      ssize_t const moved = ::read(file.get(), static_cast<char *>(bytes) + done, size - done);
      if (moved < 0 && errno != EINTR)
        throw_errno("read", path);
      if (moved == 0)
        throw std::runtime_error(path + " is cut");
      if (moved > 0)
        done += std::uint64_t(moved);
    }
  }

 private:
  static void write_all(int file, const std::string &path, const void *bytes, std::uint64_t size) {
    for (std::uint64_t done = 0; done < size;) {
      ssize_t const moved = ::write(file, static_cast<const char *>(bytes) + done, size - done);
      if (moved < 0 && errno != EINTR)
        throw_errno("write", path);
      if (moved > 0)
        done += std::uint64_t(moved);
    }
  }

  std::string folder_;
};

}  // namespace

bool is_host_target(const std::string &url) {
  return starts_with(url, pool_scheme) || starts_with(url, file_scheme) ||
         url.find("://") == std::string::npos;
}

std::unique_ptr<snapshot_target> open_target(const std::string &url, bool on_gpu) {
  if (starts_with(url, pool_scheme))
    return std::make_unique<pool_target>(url, on_gpu);
  return std::make_unique<folder_target>(
      starts_with(url, file_scheme) ? url.substr(file_scheme.size()) : url);
}

}  // namespace fdtd
