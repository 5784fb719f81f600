// backends/gluster/gluster_engine.cc: GlusterFS files through libgfapi.
#include "backends/gluster/gluster_engine.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <deque>

#include "core/base/mutex.hpp"
#include "seams/store/errno_status.hpp"
#include "seams/store/version_hash.hpp"

namespace tanada::backends {
namespace {

constexpr size_t piece_size = 256 << 10;    // bytes of a read in flight
constexpr size_t call_size_max = 64 << 20;  // bytes of a write
constexpr size_t list_count_max = 1'000'000;
constexpr uint64_t granularity_ns =
    100'000'000;  // a brick's time stamps may be this old when they are made

uint64_t stamp_ns(const timespec &stamp) {
  return uint64_t(stamp.tv_sec) * 1'000'000'000u + uint64_t(stamp.tv_nsec);
}

seams::store_stat stat_of(const struct stat &file_stat) {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  uint64_t const changed_ns = std::max(stamp_ns(file_stat.st_mtim), stamp_ns(file_stat.st_ctim));
  seams::store_stat result;
  result.size = uint64_t(file_stat.st_size);
  result.version = seams::version_hash({uint64_t(file_stat.st_dev),
                                        uint64_t(file_stat.st_ino),
                                        stamp_ns(file_stat.st_ctim),
                                        stamp_ns(file_stat.st_mtim),
                                        uint64_t(file_stat.st_size)});
  result.is_version_stable = changed_ns + granularity_ns <= stamp_ns(time);
  return result;
}

// The pieces of one read in flight. Callbacks run on a thread of libgfapi.
class read_operation {
 public:
  explicit read_operation(glfs_fd_t *file) : file_{file} {}
  ~read_operation() {
    TND_ASSERT(in_flight_ == 0);
  }

  // Reads up to `size` bytes at `offset` into `addr`. Pieces are added in the order of their
  // offsets.
  void post(std::byte *addr, size_t size, uint64_t offset) {
    unique_lock lock{mutex_};
    pieces_.push_back({this, size, 0, 0});
    piece &part = pieces_.back();
    in_flight_++;
    lock.unlock();
    if (glfs_pread_async(file_, addr, size, off_t(offset), 0, done, &part) != 0)
      finish(part, -1, errno);
  }

  // Waits for all pieces. Adds the bytes that were read without a gap from the first, and returns
  // the error that ended them.
  status wait(uint64_t &size) {
    unique_lock lock{mutex_};
    idle_.wait(lock, [&] { return in_flight_ == 0; });
    for (const piece &part : pieces_) {
      size += part.moved;
      if (part.number != 0)
        return seams::errno_status(part.number);
      if (part.moved < part.requested)
        break;
    }
    return status::ok;
  }

 private:
  struct piece {
    read_operation *operation;
    size_t requested, moved;
    int number;  // errno
  };

  static void done(glfs_fd_t *, ssize_t moved, struct glfs_stat *, struct glfs_stat *, void *data) {
    piece &part = *static_cast<piece *>(data);
    int const number = moved < 0 ? (errno != 0 ? errno : EIO) : 0;
    part.operation->finish(part, moved, number);
  }

  // Hold the lock to the end: the waiter destroys this object as soon as it can take the lock.
  void finish(piece &part, ssize_t moved, int number) {
    lock_guard const lock{mutex_};
    TND_ASSERT(in_flight_ > 0 && part.operation == this);
    if (moved >= 0)
      part.moved = size_t(moved);
    else
      part.number = number;
    if (--in_flight_ == 0)
      idle_.notify_all();
  }

  glfs_fd_t *const file_;
  mutex mutex_;
  condition_variable idle_;
  std::deque<piece> pieces_;  // a deque keeps addresses of elements stable
  uint32_t in_flight_ = 0;
};

int open_flags_of(seams::store_open_flags flags) {
  return (flags.write ? O_RDWR : O_RDONLY) | (flags.truncate ? O_TRUNC : 0);
}

glfs_fd_t *open_file(glfs_t *volume, const char *path, seams::store_open_flags flags) {
  int const open_flags = open_flags_of(flags);
  if (!flags.create)
    return glfs_open(volume, path, open_flags);
  return glfs_creat(volume, path, open_flags | (flags.exclusive ? O_EXCL : 0), 0644);
}

}  // namespace

status gluster_engine::open(const std::string &url,
                            seams::store_open_flags flags,
                            seams::store_file &file,
                            seams::store_stat &stat) {
  gluster_url parts;
  TND_TRY(gluster_url::parse(url, parts));
  glfs_t *volume = nullptr;
  TND_TRY(volumes_.find(parts, volume));
  // A directory can be opened for reading; only regular files have bytes at offsets.
  struct stat file_stat{};
  if (glfs_stat(volume, parts.path.c_str(), &file_stat) == 0 &&
      !(flags.create && flags.exclusive)) {
    if (S_ISDIR(file_stat.st_mode))
      return status::is_directory;
    if (!S_ISREG(file_stat.st_mode))
      return status::not_supported;
  }
  glfs_fd_t *const opened = open_file(volume, parts.path.c_str(), flags);
  if (opened == nullptr)
    return seams::errno_status(errno);
  auto entry = std::make_shared<gluster_file>(opened, flags.write);
  if (glfs_fstat(opened, &file_stat) != 0)
    return seams::errno_status(errno);
  stat = stat_of(file_stat);
  file = files_.insert(std::move(entry));
  return status::ok;
}

status gluster_engine::close(seams::store_file file, seams::store_stat &stat) {
  auto const closed = files_.remove(file);
  if (!closed)
    return status::bad_file;
  struct stat file_stat{};
  if (closed->writable && glfs_fsync(closed->fd, nullptr, nullptr) != 0)
    return seams::errno_status(errno);
  if (glfs_fstat(closed->fd, &file_stat) == 0)
    stat = stat_of(file_stat);
  // The last user closes the file here, where the error can still be reported.
  if (closed.use_count() == 1 && glfs_close(std::exchange(closed->fd, nullptr)) != 0)
    return seams::errno_status(errno);
  return status::ok;
}

status gluster_engine::read(seams::store_file file,
                            uint64_t offset,
                            std::span<const seams::store_buffer> buffers,
                            uint64_t &size) {
  auto const source = files_.find(file);
  if (!source)
    return status::bad_file;
  read_operation pieces{source->fd};
  uint64_t position = offset;
  for (const auto &buffer : buffers)
    for (size_t done = 0; done < buffer.size; done += piece_size) {
      size_t const part = std::min(piece_size, buffer.size - done);
      pieces.post(buffer.addr + done, part, position);
      position += part;
    }
  return pieces.wait(size);
}

status gluster_engine::write(seams::store_file file,
                             uint64_t offset,
                             std::span<const seams::store_buffer> buffers,
                             uint64_t &size) {
  auto const target = files_.find(file);
  if (!target || !target->writable)
    return status::bad_file;
  for (const auto &buffer : buffers)
    for (size_t done = 0; done < buffer.size;) {
      size_t const part = std::min(call_size_max, buffer.size - done);
      ssize_t const moved = glfs_pwrite(
          target->fd, buffer.addr + done, part, off_t(offset + size), 0, nullptr, nullptr);
      if (moved <= 0)
        return moved == 0 ? status::io : seams::errno_status(errno);
      done += size_t(moved);
      size += uint64_t(moved);
    }
  return status::ok;
}

status gluster_engine::stat(seams::store_file file, seams::store_stat &stat) {
  auto const entry = files_.find(file);
  if (!entry)
    return status::bad_file;
  struct stat file_stat{};
  if (glfs_fstat(entry->fd, &file_stat) != 0)
    return seams::errno_status(errno);
  stat = stat_of(file_stat);
  return status::ok;
}

status gluster_engine::truncate(seams::store_file file, uint64_t size) {
  auto const entry = files_.find(file);
  if (!entry || !entry->writable)
    return status::bad_file;
  return glfs_ftruncate(entry->fd, off_t(size), nullptr, nullptr) == 0 ? status::ok
                                                                       : seams::errno_status(errno);
}

status gluster_engine::sync(seams::store_file file) {
  auto const entry = files_.find(file);
  if (!entry)
    return status::bad_file;
  if (!entry->writable)
    return status::ok;
  return glfs_fsync(entry->fd, nullptr, nullptr) == 0 ? status::ok : seams::errno_status(errno);
}

status gluster_engine::unlink(const std::string &url) {
  gluster_url parts;
  TND_TRY(gluster_url::parse(url, parts));
  glfs_t *volume = nullptr;
  TND_TRY(volumes_.find(parts, volume));
  return glfs_unlink(volume, parts.path.c_str()) == 0 ? status::ok : seams::errno_status(errno);
}

namespace {

// Appends the names in a folder that begin with `start`, each after `url_prefix`.
status append_names(glfs_fd_t *folder,
                    std::string_view start,
                    const std::string &url_prefix,
                    std::vector<std::string> &names) {
  for (;;) {
    errno = 0;
    struct stat file_stat{};
    const dirent *const entry = glfs_readdirplus(folder, &file_stat);
    if (entry == nullptr)
      return errno == 0 ? status::ok : seams::errno_status(errno);
    std::string_view const name = entry->d_name;
    if (name == "." || name == ".." || !name.starts_with(start))
      continue;
    if (names.size() == list_count_max)
      return status::overflow;
    names.push_back(url_prefix + entry->d_name + (S_ISDIR(file_stat.st_mode) ? "/" : ""));
  }
}

}  // namespace

status gluster_engine::list(const std::string &prefix, std::vector<std::string> &names) {
  gluster_url parts;
  TND_TRY(gluster_url::parse(prefix, parts));
  glfs_t *volume = nullptr;
  TND_TRY(volumes_.find(parts, volume));
  size_t const cut = parts.path.rfind('/') + 1;
  std::string const folder = parts.path.substr(0, cut), start = parts.path.substr(cut);
  std::string const url_prefix = prefix.substr(0, prefix.size() - start.size());
  glfs_fd_t *const open = glfs_opendir(volume, folder.c_str());
  if (open == nullptr)
    return errno == ENOENT || errno == ENOTDIR ? status::ok : seams::errno_status(errno);
  status const code = append_names(open, start, url_prefix, names);
  (void)glfs_closedir(open);
  std::sort(names.begin(), names.end());
  return code;
}

}  // namespace tanada::backends
