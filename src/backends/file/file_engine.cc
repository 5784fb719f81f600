#include "backends/file/file_engine.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/file/io_vectors.hpp"
#include "core/base/log.hpp"
#include "seams/store/errno_status.hpp"
#include "seams/store/store_op_check.hpp"
#include "seams/store/version_hash.hpp"

namespace tanada::port {
namespace {

constexpr size_t list_count_max = 1'000'000;

uint64_t stamp_ns(const timespec &stamp) noexcept {
  return uint64_t(stamp.tv_sec) * 1'000'000'000u + uint64_t(stamp.tv_nsec);
}

// A stamp is settled when a change made now would get another one: file systems take stamps from a
// clock that ticks every 1 to 10 ms, old ones every 1 or 2 s.
bool stamps_settled(const struct stat &found) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  bool const coarse = found.st_mtim.tv_nsec == 0 && found.st_ctim.tv_nsec == 0;
  uint64_t const grain_ns = coarse ? 2'000'000'000u : 100'000'000u;
  uint64_t const changed_ns = std::max(stamp_ns(found.st_mtim), stamp_ns(found.st_ctim));
  return changed_ns + grain_ns <= stamp_ns(now);
}

void fill_stat(const struct stat &found, store_stat &stat) {
  stat.version =
      version_hash({uint64_t(found.st_dev), uint64_t(found.st_ino), stamp_ns(found.st_ctim),
                    stamp_ns(found.st_mtim), uint64_t(found.st_size)});
  stat.size = uint64_t(found.st_size);
  stat.version_settled = stamps_settled(found);
}

status fd_stat(int fd, store_stat &stat) {
  struct stat found{};
  if (fstat(fd, &found) != 0)
    return errno_status(errno);
  fill_stat(found, stat);
  return status::ok;
}

int open_retrying(const char *path, int flags, mode_t mode) {
  int fd;
  do {
    fd = ::open(path, flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// O_NONBLOCK, so that a FIFO without another end does not hold the thread for ever. It means
// nothing for files, but to one with a lease, which answers EWOULDBLOCK: that open waits until the
// lease is given back.
int open_unknown(const char *path, int flags, mode_t mode) {
  int const fd = open_retrying(path, flags | O_NONBLOCK | O_NOCTTY, mode);
  return fd >= 0 || errno != EWOULDBLOCK ? fd : open_retrying(path, flags | O_NOCTTY, mode);
}

status refuse_special(const char *path) {
  return fail(status::not_supported, "%s: a device, FIFO or socket and no file", path);
}

// Only what has bytes at offsets and a size is a file. ok: reads and writes of `fd`, which was
// opened with no other flag that F_SETFL changes, may block again.
status check_regular(int fd, const char *path, struct stat &found) {
  if (fstat(fd, &found) != 0)
    return errno_status(errno);
  if (S_ISDIR(found.st_mode))
    return status::is_directory;
  if (!S_ISREG(found.st_mode))
    return refuse_special(path);
  return fcntl(fd, F_SETFL, 0) == 0 ? status::ok : errno_status(errno);
}

int open_flags_of(store_open_flags flags) noexcept {
  return (flags.write ? O_RDWR : O_RDONLY) | (flags.create ? O_CREAT : 0) |
         (flags.exclusive ? O_EXCL : 0) | (flags.truncate ? O_TRUNC : 0);
}

}  // namespace

result<std::string> file_path(const std::string &url) {
  static constexpr std::string_view prefix = "file://";
  if (!url.starts_with(prefix))
    return url;
  auto rest = std::string_view{url}.substr(prefix.size());
  if (rest.starts_with("localhost/"))
    rest.remove_prefix(std::strlen("localhost"));
  if (rest.starts_with('/'))
    return std::string{rest};
  return fail(status::invalid, "%s: write file:///path, or the plain path", url.c_str());
}

status file_engine::open(const std::string &url, store_open_flags flags, store_file &file,
                         store_stat &stat) {
  auto path = file_path(url);
  if (!path.ok())
    return path.error();
  int const wanted = open_flags_of(flags);
  mode_t const mode = flags.owner_only ? 0600 : 0666;
  int fd = open_unknown(path.value().c_str(), wanted, mode);
  if (fd < 0 && errno == EACCES && flags.write && !flags.read) {
    fd = open_unknown(path.value().c_str(), (wanted & ~O_ACCMODE) | O_WRONLY, mode);
  }
  if (fd < 0)
    return errno == ENXIO ? refuse_special(path.value().c_str()) : errno_status(errno);
  store_completion opened;
  TND_TRY(adopt(fd, flags, path.value().c_str(), opened));
  file = opened.file;
  stat = opened.stat;
  return status::ok;
}

// Take over a descriptor, which is closed when this fails.
status file_engine::adopt(int fd, store_open_flags flags, const char *path,
                          store_completion &opened) {
  auto handle = std::make_shared<local_file>(fd, flags.write, flags.direct);
  struct stat found{};
  TND_TRY(check_regular(fd, path, found));
  fill_stat(found, opened.stat);
  reader_.prepare(*handle, opened.stat.size);
  opened.file = files_.insert(std::move(handle));
  return status::ok;
}

// The whole of a file that fits, where its bytes are in memory; 0: not so.
uint64_t file_engine::read_whole(const local_file &file, const store_op &op, uint64_t size) {
  if (size == 0 || size > buffers_size(op.buffers) || file.direct_fd >= 0)
    return 0;
  io_vectors left{op.buffers};
  int const flags = file.in_memory ? 0 : RWF_NOWAIT;
  ssize_t const got = preadv2(file.fd, left.next(), int(left.next_count()), 0, flags);
  return got >= 0 && uint64_t(got) == size ? size : 0;
}

bool file_engine::try_perform(const store_op &op, store_completion &completion) {
  if (op.kind == store_op_kind::open)
    return try_open(op, completion);
  if (op.kind != store_op_kind::close)
    return false;
  auto handle = files_.find(op.file);
  // To close what was written may wait for a server.
  if (!handle || handle->writable || handle->device_files != nullptr)
    return false;
  handle.reset();
  completion.op_id = op.op_id;
  completion.code = close_reader(op.file);
  return true;
}

// Only where each folder on the way is in the kernel's cache. An open that fails is tried again by
// those who may wait.
bool file_engine::try_open(const store_op &op, store_completion &completion) {
  store_open_flags const flags = op.open_flags;
  if (flags.write || flags.create || flags.truncate || flags.direct)
    return false;
  auto path = file_path(op.url);
  if (!path.ok())
    return false;
  open_how const how{
      .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, .mode = 0, .resolve = RESOLVE_CACHED};
  long const fd = syscall(SYS_openat2, AT_FDCWD, path.value().c_str(), &how, sizeof how);
  if (fd < 0)
    return false;
  completion.op_id = op.op_id;
  completion.code = adopt(int(fd), flags, path.value().c_str(), completion);
  if (completion.code != status::ok || op.buffers.empty())
    return true;
  if (auto const handle = files_.find(completion.file); handle)
    completion.size = read_whole(*handle, op, completion.stat.size);
  return true;
}

status file_engine::close(store_file file, store_stat &stat) {
  auto handle = files_.remove(file);
  if (!handle)
    return status::bad_file;
  auto const code = fd_stat(handle->fd, stat);
  status const closed = close_last(std::move(handle));
  return closed == status::ok ? code : closed;
}

// What was only read has published nothing.
status file_engine::close_reader(store_file file) {
  auto handle = files_.remove(file);
  return handle ? close_last(std::move(handle)) : status::bad_file;
}

// Alone, close here, where the error of a network file system can still be reported.
status file_engine::close_last(std::shared_ptr<local_file> handle) {
  bool const is_alone = handle.use_count() == 1;
  bool const failed = is_alone && ::close(std::exchange(handle->fd, -1)) != 0 && errno != EINTR;
  return failed ? errno_status(errno) : status::ok;
}

status file_engine::read(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
                         uint64_t &size) {
  auto const handle = files_.find(file);
  return handle ? reader_.read(*handle, offset, buffers, size) : status::bad_file;
}

status file_engine::write(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
                          uint64_t &size) {
  auto const handle = files_.find(file);
  if (!handle || !handle->writable)
    return status::bad_file;
  return reader_.write(*handle, offset, buffers, size);
}

status file_engine::stat(store_file file, store_stat &stat) {
  auto const handle = files_.find(file);
  return handle ? fd_stat(handle->fd, stat) : status::bad_file;
}

status file_engine::truncate(store_file file, uint64_t size) {
  auto const handle = files_.find(file);
  if (!handle || !handle->writable)
    return status::bad_file;
  return ftruncate(handle->fd, off_t(size)) == 0 ? status::ok : errno_status(errno);
}

status file_engine::sync(store_file file) {
  auto const handle = files_.find(file);
  if (!handle)
    return status::bad_file;
  return fdatasync(handle->fd) == 0 ? status::ok : errno_status(errno);
}

status file_engine::unlink(const std::string &url) {
  auto path = file_path(url);
  if (!path.ok())
    return path.error();
  return ::unlink(path.value().c_str()) == 0 ? status::ok : errno_status(errno);
}

status file_engine::sync_names(const std::string &url) {
  auto path = file_path(url);
  if (!path.ok())
    return path.error();
  size_t const cut = path.value().rfind('/');
  std::string const folder = cut == std::string::npos ? "." : path.value().substr(0, cut + 1);
  int const fd = open_retrying(folder.c_str(), O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0)
    return errno_status(errno);
  auto const code = fsync(fd) == 0 ? status::ok : errno_status(errno);
  ::close(fd);
  return code;
}

status file_engine::list(const std::string &prefix, std::vector<std::string> &names) {
  auto path = file_path(prefix);
  if (!path.ok())
    return path.error();
  size_t const cut = path.value().rfind('/') + 1;  // 0 when there is none
  std::string const folder = cut == 0 ? "." : path.value().substr(0, cut);
  std::string const start = path.value().substr(cut);
  std::string const before = prefix.substr(0, prefix.size() - start.size());
  std::unique_ptr<DIR, int (*)(DIR *)> const open{opendir(folder.c_str()), closedir};
  if (!open)
    return errno == ENOENT || errno == ENOTDIR ? status::ok : errno_status(errno);
  for (errno = 0; const dirent *entry = readdir(open.get()); errno = 0) {
    std::string_view const name = entry->d_name;
    if (name == "." || name == ".." || !name.starts_with(start))
      continue;
    if (names.size() == list_count_max) {
      return fail(status::overflow, "%s: more than %zu names", prefix.c_str(), list_count_max);
    }
    bool folder_found = entry->d_type == DT_DIR;
    struct stat found{};
    if (entry->d_type == DT_UNKNOWN && fstatat(dirfd(open.get()), entry->d_name, &found, 0) == 0) {
      folder_found = S_ISDIR(found.st_mode);
    }
    names.push_back(before + entry->d_name + (folder_found ? "/" : ""));
  }
  if (errno != 0)
    return errno_status(errno);
  std::sort(names.begin(), names.end());
  return status::ok;
}

}  // namespace tanada::port
