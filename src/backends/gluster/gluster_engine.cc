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

namespace tanada::port {
namespace {

constexpr size_t piece_size = 256 << 10;    // bytes of a read in flight
constexpr size_t call_size_max = 64 << 20;  // bytes of a write
constexpr size_t list_count_max = 1'000'000;
constexpr uint64_t grain_ns =
    100'000'000;  // a brick's time stamps may be so old when they are made

uint64_t stamp_ns(const timespec &stamp) {
  return uint64_t(stamp.tv_sec) * 1'000'000'000u + uint64_t(stamp.tv_nsec);
}

store_stat stat_of(const struct stat &found) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  uint64_t const changed_ns = std::max(stamp_ns(found.st_mtim), stamp_ns(found.st_ctim));
  store_stat made;
  made.size = uint64_t(found.st_size);
  made.version =
      version_hash({uint64_t(found.st_dev), uint64_t(found.st_ino), stamp_ns(found.st_ctim),
                    stamp_ns(found.st_mtim), uint64_t(found.st_size)});
  made.version_settled = changed_ns + grain_ns <= stamp_ns(now);
  return made;
}

// The pieces of one read on their way. Callbacks come on a thread of libgfapi's.
class reading {
 public:
  explicit reading(glfs_fd_t *from) : from_{from} {}

  // `addr` gets up to `size` bytes at `offset`. Pieces are added in the order of their offsets.
  void post(std::byte *addr, size_t size, uint64_t offset) {
    unique_lock lock{mutex_};
    pieces_.push_back({this, size, 0, 0});
    piece &mine = pieces_.back();
    under_way_++;
    lock.unlock();
    if (glfs_pread_async(from_, addr, size, off_t(offset), 0, done, &mine) != 0)
      finish(mine, -1, errno);
  }

  // All are there: bytes from the first on without a gap, and why no more.
  status wait(uint64_t &size) {
    unique_lock lock{mutex_};
    calm_.wait(lock, [&] { return under_way_ == 0; });
    for (const piece &each : pieces_) {
      size += each.moved;
      if (each.number != 0)
        return errno_status(each.number);
      if (each.moved < each.wanted)
        break;
    }
    return status::ok;
  }

 private:
  struct piece {
    reading *of;
    size_t wanted, moved;
    int number;  // errno
  };

  static void done(glfs_fd_t *, ssize_t moved, struct glfs_stat *, struct glfs_stat *, void *data) {
    piece &mine = *static_cast<piece *>(data);
    int const number = moved < 0 ? (errno != 0 ? errno : EIO) : 0;
    mine.of->finish(mine, moved, number);
  }

  // Under the lock to the end: the waiter destroys all this as soon as it can take it.
  void finish(piece &mine, ssize_t moved, int number) {
    lock_guard const lock{mutex_};
    if (moved >= 0)
      mine.moved = size_t(moved);
    else
      mine.number = number;
    if (--under_way_ == 0)
      calm_.notify_all();
  }

  glfs_fd_t *const from_;
  mutex mutex_;
  condition_variable calm_;
  std::deque<piece> pieces_;  // their places stay
  uint32_t under_way_ = 0;
};

int open_flags_of(store_open_flags flags) {
  return (flags.write ? O_RDWR : O_RDONLY) | (flags.truncate ? O_TRUNC : 0);
}

glfs_fd_t *open_file(glfs_t *volume, const char *path, store_open_flags flags) {
  int const wanted = open_flags_of(flags);
  if (!flags.create)
    return glfs_open(volume, path, wanted);
  return glfs_creat(volume, path, wanted | (flags.exclusive ? O_EXCL : 0), 0644);
}

}  // namespace

status gluster_engine::open(const std::string &url, store_open_flags flags, store_file &file,
                            store_stat &stat) {
  gluster_url parts;
  TND_TRY(gluster_url::parse(url, parts));
  glfs_t *volume = nullptr;
  TND_TRY(volumes_.find(parts, volume));
  // A folder can be opened to read; only what has bytes at offsets is a file.
  struct stat found{};
  if (glfs_stat(volume, parts.path.c_str(), &found) == 0 && !(flags.create && flags.exclusive)) {
    if (S_ISDIR(found.st_mode))
      return status::is_directory;
    if (!S_ISREG(found.st_mode))
      return status::not_supported;
  }
  glfs_fd_t *const opened = open_file(volume, parts.path.c_str(), flags);
  if (opened == nullptr)
    return errno_status(errno);
  auto made = std::make_shared<gluster_file>(opened, flags.write);
  if (glfs_fstat(opened, &found) != 0)
    return errno_status(errno);
  stat = stat_of(found);
  file = files_.insert(std::move(made));
  return status::ok;
}

status gluster_engine::close(store_file file, store_stat &stat) {
  auto const closed = files_.remove(file);
  if (!closed)
    return status::bad_file;
  struct stat found{};
  if (closed->writable && glfs_fsync(closed->fd, nullptr, nullptr) != 0)
    return errno_status(errno);
  if (glfs_fstat(closed->fd, &found) == 0)
    stat = stat_of(found);
  // Alone, close here, where the error can still be reported.
  if (closed.use_count() == 1 && glfs_close(std::exchange(closed->fd, nullptr)) != 0)
    return errno_status(errno);
  return status::ok;
}

status gluster_engine::read(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
                            uint64_t &size) {
  auto const from = files_.find(file);
  if (!from)
    return status::bad_file;
  reading pieces{from->fd};
  uint64_t at = offset;
  for (const auto &buffer : buffers)
    for (size_t done = 0; done < buffer.size; done += piece_size) {
      size_t const part = std::min(piece_size, buffer.size - done);
      pieces.post(buffer.addr + done, part, at);
      at += part;
    }
  return pieces.wait(size);
}

status gluster_engine::write(store_file file, uint64_t offset,
                             std::span<const store_buffer> buffers, uint64_t &size) {
  auto const to = files_.find(file);
  if (!to || !to->writable)
    return status::bad_file;
  for (const auto &buffer : buffers)
    for (size_t done = 0; done < buffer.size;) {
      size_t const part = std::min(call_size_max, buffer.size - done);
      ssize_t const moved =
          glfs_pwrite(to->fd, buffer.addr + done, part, off_t(offset + size), 0, nullptr, nullptr);
      if (moved <= 0)
        return moved == 0 ? status::io : errno_status(errno);
      done += size_t(moved);
      size += uint64_t(moved);
    }
  return status::ok;
}

status gluster_engine::stat(store_file file, store_stat &stat) {
  auto const of = files_.find(file);
  if (!of)
    return status::bad_file;
  struct stat found{};
  if (glfs_fstat(of->fd, &found) != 0)
    return errno_status(errno);
  stat = stat_of(found);
  return status::ok;
}

status gluster_engine::truncate(store_file file, uint64_t size) {
  auto const of = files_.find(file);
  if (!of || !of->writable)
    return status::bad_file;
  return glfs_ftruncate(of->fd, off_t(size), nullptr, nullptr) == 0 ? status::ok
                                                                    : errno_status(errno);
}

status gluster_engine::sync(store_file file) {
  auto const of = files_.find(file);
  if (!of)
    return status::bad_file;
  if (!of->writable)
    return status::ok;
  return glfs_fsync(of->fd, nullptr, nullptr) == 0 ? status::ok : errno_status(errno);
}

status gluster_engine::unlink(const std::string &url) {
  gluster_url parts;
  TND_TRY(gluster_url::parse(url, parts));
  glfs_t *volume = nullptr;
  TND_TRY(volumes_.find(parts, volume));
  return glfs_unlink(volume, parts.path.c_str()) == 0 ? status::ok : errno_status(errno);
}

status gluster_engine::list(const std::string &prefix, std::vector<std::string> &names) {
  gluster_url parts;
  TND_TRY(gluster_url::parse(prefix, parts));
  glfs_t *volume = nullptr;
  TND_TRY(volumes_.find(parts, volume));
  size_t const cut = parts.path.rfind('/') + 1;
  std::string const folder = parts.path.substr(0, cut), start = parts.path.substr(cut);
  std::string const before = prefix.substr(0, prefix.size() - start.size());
  glfs_fd_t *const open = glfs_opendir(volume, folder.c_str());
  if (open == nullptr)
    return errno == ENOENT || errno == ENOTDIR ? status::ok : errno_status(errno);
  status code = status::ok;
  struct stat found{};
  while (code == status::ok) {
    errno = 0;
    const dirent *const entry = glfs_readdirplus(open, &found);
    if (entry == nullptr)
      break;
    std::string_view const name = entry->d_name;
    if (name == "." || name == ".." || !name.starts_with(start))
      continue;
    if (names.size() == list_count_max)
      code = status::overflow;
    else
      names.push_back(before + entry->d_name + (S_ISDIR(found.st_mode) ? "/" : ""));
  }
  if (code == status::ok && errno != 0)
    code = errno_status(errno);
  (void)glfs_closedir(open);
  std::sort(names.begin(), names.end());
  return code;
}

}  // namespace tanada::port
