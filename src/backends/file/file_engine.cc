// backends/file/file_engine.cc: files through blocking system calls.
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
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/store/errno_status.hpp"
#include "seams/store/store_op_check.hpp"
#include "seams/store/version_hash.hpp"

namespace tanada::backends {
namespace {

constexpr size_t list_count_max = 1'000'000;

uint64_t stamp_ns(const timespec &stamp) noexcept {
  return uint64_t(stamp.tv_sec) * 1'000'000'000u + uint64_t(stamp.tv_nsec);
}

// A stamp is settled when a change made now would get a different stamp. File systems take stamps
// from a clock that ticks every 1 to 10 ms; old file systems tick every 1 or 2 s.
bool are_stamps_settled(const struct stat &file_stat) noexcept {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  bool const coarse = file_stat.st_mtim.tv_nsec == 0 && file_stat.st_ctim.tv_nsec == 0;
  uint64_t const granularity_ns = coarse ? 2'000'000'000u : 100'000'000u;
  uint64_t const changed_ns = std::max(stamp_ns(file_stat.st_mtim), stamp_ns(file_stat.st_ctim));
  return changed_ns + granularity_ns <= stamp_ns(time);
}

void fill_stat(const struct stat &file_stat, seams::store_stat &stat) {
  stat.version = seams::version_hash({uint64_t(file_stat.st_dev),
                                      uint64_t(file_stat.st_ino),
                                      stamp_ns(file_stat.st_ctim),
                                      stamp_ns(file_stat.st_mtim),
                                      uint64_t(file_stat.st_size)});
  stat.size = uint64_t(file_stat.st_size);
  stat.is_version_stable = are_stamps_settled(file_stat);
}

status fd_stat(int fd, seams::store_stat &stat) {
  struct stat file_stat{};
  if (fstat(fd, &file_stat) != 0)
    return seams::errno_status(errno);
  fill_stat(file_stat, stat);
  return status::ok;
}

int open_retrying(const char *path, int flags, mode_t mode) {
  int fd;
  do {
    fd = ::open(path, flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// O_NONBLOCK, so that opening a FIFO without a peer does not block the thread forever. The flag has
// no effect on regular files, except a file with a lease: its open fails with EWOULDBLOCK. It is
// then repeated as a blocking open, which waits until the lease is released.
int open_unknown(const char *path, int flags, mode_t mode) {
  int const fd = open_retrying(path, flags | O_NONBLOCK | O_NOCTTY, mode);
  return fd >= 0 || errno != EWOULDBLOCK ? fd : open_retrying(path, flags | O_NOCTTY, mode);
}

status fail_special(const char *path) {
  return fail(status::not_supported, "{}: a device, FIFO or socket and no file", path);
}

// Accepts only regular files, which have a size and bytes at offsets. On ok, reads and writes of
// `fd` may block again; `fd` must have been opened with no other flag that F_SETFL changes.
status check_regular(int fd, const char *path, struct stat &file_stat) {
  if (fstat(fd, &file_stat) != 0)
    return seams::errno_status(errno);
  if (S_ISDIR(file_stat.st_mode))
    return status::is_directory;
  if (!S_ISREG(file_stat.st_mode))
    return fail_special(path);
  return fcntl(fd, F_SETFL, 0) == 0 ? status::ok : seams::errno_status(errno);
}

int open_flags_of(seams::store_open_flags flags) noexcept {
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
  return fail(status::invalid, "{}: write file:///path, or the plain path", url);
}

status file_engine::open(const std::string &url,
                         seams::store_open_flags flags,
                         seams::store_file &file,
                         seams::store_stat &stat) {
  auto path = file_path(url);
  if (!path.ok())
    return path.error();
  int const open_flags = open_flags_of(flags);
  mode_t const mode = flags.owner_only ? 0600 : 0666;
  int fd = open_unknown(path.value().c_str(), open_flags, mode);
  if (fd < 0 && errno == EACCES && flags.write && !flags.read) {
    fd = open_unknown(path.value().c_str(), (open_flags & ~O_ACCMODE) | O_WRONLY, mode);
  }
  if (fd < 0)
    return errno == ENXIO ? fail_special(path.value().c_str()) : seams::errno_status(errno);
  seams::store_completion opened;
  TND_TRY(adopt(fd, flags, path.value().c_str(), opened));
  file = opened.file;
  stat = opened.stat;
  return status::ok;
}

// Takes ownership of a descriptor and closes it on failure.
status file_engine::adopt(int fd,
                          seams::store_open_flags flags,
                          const char *path,
                          seams::store_completion &opened) {
  TND_ASSERT(fd >= 0);
  auto handle = std::make_shared<local_file>(fd, flags.write, flags.direct);
  struct stat file_stat{};
  TND_TRY(check_regular(fd, path, file_stat));
  fill_stat(file_stat, opened.stat);
  reader_.prepare(*handle, opened.stat.size);
  opened.file = files_.insert(std::move(handle));
  return status::ok;
}

// Reads a whole file that fits the buffers and whose bytes are in memory. Returns 0 otherwise.
uint64_t file_engine::read_whole(const local_file &file, const seams::store_op &op, uint64_t size) {
  if (size == 0 || size > seams::buffers_size(op.buffers) || file.direct_fd >= 0)
    return 0;
  io_vectors remaining{op.buffers};
  int const flags = file.in_memory ? 0 : RWF_NOWAIT;
  ssize_t const got = preadv2(file.fd, remaining.next(), int(remaining.next_count()), 0, flags);
  return got >= 0 && uint64_t(got) == size ? size : 0;
}

bool file_engine::try_perform(const seams::store_op &op, seams::store_completion &completion) {
  if (op.kind == seams::store_op_kind::open)
    return try_open(op, completion);
  if (op.kind != seams::store_op_kind::close)
    return false;
  auto handle = files_.find(op.file);
  // Closing a written file may wait for a server.
  if (!handle || handle->writable || handle->device_files != nullptr)
    return false;
  handle.reset();
  completion.op_id = op.op_id;
  completion.code = close_reader(op.file);
  return true;
}

// Opens a file only if each folder of its path is in the kernel's cache. A failed open is repeated
// by a thread that may block.
bool file_engine::try_open(const seams::store_op &op, seams::store_completion &completion) {
  seams::store_open_flags const flags = op.open_flags;
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

bool file_engine::try_read_each(seams::store_file file, std::span<seams::store_read> reads) {
  return files_.visit(file, [&](local_file &handle) {
    int const fd = handle.thread_descriptor();
    for (seams::store_read &read : reads)
      if (!reader_.reads_direct(handle, read.offset, {&read.buffer, 1}))
        read.is_done = read_cached(handle, fd, read);
  });
}

status file_engine::close(seams::store_file file, seams::store_stat &stat) {
  auto handle = files_.remove(file);
  if (!handle)
    return status::bad_file;
  auto const code = fd_stat(handle->fd, stat);
  status const closed = close_last(std::move(handle));
  return closed == status::ok ? code : closed;
}

// A file that was only read has published no changes.
status file_engine::close_reader(seams::store_file file) {
  auto handle = files_.remove(file);
  return handle ? close_last(std::move(handle)) : status::bad_file;
}

// The last user closes the file here, where the error of a network file system can still be
// reported.
status file_engine::close_last(std::shared_ptr<local_file> handle) {
  TND_ASSERT(handle != nullptr);
  bool const is_last_user = handle.use_count() == 1;
  bool const failed = is_last_user && ::close(std::exchange(handle->fd, -1)) != 0 && errno != EINTR;
  return failed ? seams::errno_status(errno) : status::ok;
}

status file_engine::read(seams::store_file file,
                         uint64_t offset,
                         std::span<const seams::store_buffer> buffers,
                         uint64_t &size) {
  auto const handle = files_.find(file);
  return handle ? reader_.read(*handle, offset, buffers, size) : status::bad_file;
}

status file_engine::write(seams::store_file file,
                          uint64_t offset,
                          std::span<const seams::store_buffer> buffers,
                          uint64_t &size) {
  auto const handle = files_.find(file);
  if (!handle || !handle->writable)
    return status::bad_file;
  return reader_.write(*handle, offset, buffers, size);
}

status file_engine::stat(seams::store_file file, seams::store_stat &stat) {
  auto const handle = files_.find(file);
  return handle ? fd_stat(handle->fd, stat) : status::bad_file;
}

status file_engine::truncate(seams::store_file file, uint64_t size) {
  auto const handle = files_.find(file);
  if (!handle || !handle->writable)
    return status::bad_file;
  return ftruncate(handle->fd, off_t(size)) == 0 ? status::ok : seams::errno_status(errno);
}

status file_engine::sync(seams::store_file file) {
  auto const handle = files_.find(file);
  if (!handle)
    return status::bad_file;
  return fdatasync(handle->fd) == 0 ? status::ok : seams::errno_status(errno);
}

status file_engine::unlink(const std::string &url) {
  auto path = file_path(url);
  if (!path.ok())
    return path.error();
  return ::unlink(path.value().c_str()) == 0 ? status::ok : seams::errno_status(errno);
}

status file_engine::sync_names(const std::string &url) {
  auto path = file_path(url);
  if (!path.ok())
    return path.error();
  size_t const folder_end = path.value().rfind('/');
  std::string const folder =
      folder_end == std::string::npos ? "." : path.value().substr(0, folder_end + 1);
  int const fd = open_retrying(folder.c_str(), O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0)
    return seams::errno_status(errno);
  auto const code = fsync(fd) == 0 ? status::ok : seams::errno_status(errno);
  ::close(fd);
  return code;
}

namespace {

bool is_folder_entry(DIR *folder, const dirent &entry) {
  if (entry.d_type != DT_UNKNOWN)
    return entry.d_type == DT_DIR;
  struct stat file_stat{};
  return fstatat(dirfd(folder), entry.d_name, &file_stat, 0) == 0 && S_ISDIR(file_stat.st_mode);
}

// Appends the names in a folder that begin with `start`, each after `url_prefix`.
status append_names(DIR *folder,
                    std::string_view start,
                    const std::string &url_prefix,
                    std::vector<std::string> &names) {
  for (errno = 0; const dirent *entry = readdir(folder); errno = 0) {
    std::string_view const name = entry->d_name;
    if (name == "." || name == ".." || !name.starts_with(start))
      continue;
    if (names.size() == list_count_max)
      return status::overflow;
    names.push_back(url_prefix + entry->d_name + (is_folder_entry(folder, *entry) ? "/" : ""));
  }
  return errno == 0 ? status::ok : seams::errno_status(errno);
}

}  // namespace

status file_engine::list(const std::string &prefix, std::vector<std::string> &names) {
  auto path = file_path(prefix);
  if (!path.ok())
    return path.error();
  size_t const folder_end = path.value().rfind('/') + 1;  // 0 when there is no slash
  std::string const folder = folder_end == 0 ? "." : path.value().substr(0, folder_end);
  std::string const start = path.value().substr(folder_end);
  std::string const url_prefix = prefix.substr(0, prefix.size() - start.size());
  std::unique_ptr<DIR, int (*)(DIR *)> const open{opendir(folder.c_str()), closedir};
  if (!open)
    return errno == ENOENT || errno == ENOTDIR ? status::ok : seams::errno_status(errno);
  status const code = append_names(open.get(), start, url_prefix, names);
  if (code == status::overflow && names.size() == list_count_max)
    return fail(code, "{}: more than {} names", prefix, list_count_max);
  if (code != status::ok)
    return code;
  std::sort(names.begin(), names.end());
  return status::ok;
}

}  // namespace tanada::backends
