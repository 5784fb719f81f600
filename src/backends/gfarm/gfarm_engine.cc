#include "backends/gfarm/gfarm_engine.hpp"

#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/mutex.hpp"
#include "seams/store/errno_status.hpp"
#include "seams/store/version_hash.hpp"

namespace tanada::port {
namespace {

constexpr size_t call_size_max = 64 << 20;  // libgfarm counts in int
constexpr size_t list_count_max = 1'000'000;

status gfarm_status(gfarm_error_t error) {
  return error == GFARM_ERR_NO_ERROR ? status::ok : errno_status(gfarm_error_to_errno(error));
}

// Gfarm gives a file another generation whenever one who had it open to write closes it changed;
// until then the bytes may change under the old one, which is why a file that we have open to write
// is never settled.
store_stat stat_of(const struct gfs_stat &found, bool settled) {
  uint64_t const version =
      version_hash({found.st_ino, found.st_gen, uint64_t(found.st_mtimespec.tv_sec),
                    uint64_t(found.st_mtimespec.tv_nsec), uint64_t(found.st_size)});
  return {.size = uint64_t(found.st_size), .version = version, .version_settled = settled};
}

status stat_handle(const gfarm_handle &handle, struct gfs_stat &found) {
  return gfarm_status(handle.call([&](GFS_File file) { return gfs_pio_stat(file, &found); }));
}

status handle_stat(const gfarm_handle &handle, bool settled, store_stat &stat) {
  struct gfs_stat found{};
  TND_TRY(stat_handle(handle, found));
  stat = stat_of(found, settled);
  gfs_stat_free(&found);
  return status::ok;
}

std::vector<std::string> replica_hosts(const std::string &url) {
  std::vector<std::string> hosts;
  gfs_replica_info *info = nullptr;
  auto const error = gfarm_calls::of_process().by_name(
      url, [&] { return gfs_replica_info_by_name(url.c_str(), 0, &info); });
  if (error != GFARM_ERR_NO_ERROR)
    return hosts;
  for (int i = 0; i < gfs_replica_info_number(info); i++)
    hosts.emplace_back(gfs_replica_info_nth_host(info, i));
  gfs_replica_info_free(info);
  return hosts;
}

// Move all buffers with `call`(addr, size, offset, moved), which moves a part and says how much; a
// call that moves nothing ends it.
template <class Call>
status move_buffers(std::span<const store_buffer> buffers, uint64_t offset, uint64_t &size,
                    Call call) {
  for (const auto &buffer : buffers) {
    for (size_t at = 0; at < buffer.size;) {
      size_t moved = 0;
      TND_TRY(
          call(buffer.addr + at, std::min(buffer.size - at, call_size_max), offset + size, moved));
      if (moved == 0)
        return status::ok;
      at += moved;
      size += moved;
    }
  }
  return status::ok;
}

status read_handle(const gfarm_handle &handle, std::span<const store_buffer> buffers,
                   uint64_t offset, uint64_t &size) {
  size = 0;
  return move_buffers(buffers, offset, size,
                      [&](std::byte *addr, size_t part, uint64_t at, size_t &moved) {
                        int count = 0;
                        TND_TRY(gfarm_status(handle.call([&](GFS_File file) {
                          return gfs_pio_pread(file, addr, int(part), gfarm_off_t(at), &count);
                        })));
                        moved = size_t(count);
                        return status::ok;
                      });
}

// One replica: one handle for all reads, since libgfarm has one transfer under way on a connection
// anyway. Nothing is opened or closed while it works: that asks gfmd, three times for three seconds
// when it is dead, and at the gfsd too.
status read_alone(gfarm_file &file, std::span<const store_buffer> buffers, uint64_t offset,
                  uint64_t &size) {
  lock_guard lock{file.first_use};
  if (!file.first_failed) {
    auto const code = read_handle(file.first, buffers, offset, size);
    file.first_failed = code != status::ok;
    return code;
  }
  if (!file.again.is_open()) {
    auto const code = gfarm_status(file.again.open(file.url, {.read = true}));
    if (code == status::no_entry)
      return read_handle(file.first, buffers, offset, size);  // unlinked
    if (code != status::ok)
      return code;
  }
  auto const code = read_handle(file.again, buffers, offset, size);
  if (code != status::ok)
    (void)file.again.close();
  return code;
}

// A handle of the caller's alone: an idle one or a new one, on the next replica.
status acquire(gfarm_file &file, gfarm_handle &handle) {
  std::string host;
  {
    lock_guard lock{file.mutex};
    if (!file.idle.empty()) {
      handle = std::move(file.idle.back());
      file.idle.pop_back();
      return status::ok;
    }
    host = file.hosts[file.next_host++ % file.hosts.size()];
  }
  TND_TRY(gfarm_status(handle.open(file.url, {.read = true})));
  // A host that is gone refuses: libgfarm then chooses another.
  if (handle.prefer(host) != GFARM_ERR_NO_ERROR) {
    TND_TRY(gfarm_status(handle.close()));
    return gfarm_status(handle.open(file.url, {.read = true}));
  }
  return status::ok;
}

// A handle that failed goes with its connection: the next read opens another, perhaps on a better
// host.
status read_replicas(gfarm_file &file, std::span<const store_buffer> buffers, uint64_t offset,
                     uint64_t &size) {
  unique_lock alone{file.first_use, std::try_to_lock};
  gfarm_handle handle;
  bool first = alone.owns_lock() && !file.first_failed;
  if (!first) {
    auto const code = acquire(file, handle);
    first = code == status::no_entry;  // unlinked: the first handle is all there is
    if (code != status::ok && !first)
      return code;
  }
  if (first) {
    auto const code = read_handle(file.first, buffers, offset, size);
    if (code != status::ok)
      file.first_failed = true;
    return code;
  }
  TND_TRY(read_handle(handle, buffers, offset, size));
  lock_guard lock{file.mutex};
  file.idle.push_back(std::move(handle));
  return status::ok;
}

// What libgfarm has once for the whole process, however many engines use it. It stays when the
// process ends, as threads left behind may still come.
struct library {
  tanada::mutex mutex;  // guards the next
  bool initialized = false;
  tanada::mutex directory_mutex;  // its directory reads are not thread-safe
};
library &the_library() {
  static auto *const only = new library;
  return *only;
}

}  // namespace

// Make sure that the URL's metadata server is connected. One thread of the process at a time does
// it: when two open their first files together, libgfarm's two connections make one of them fail
// with EEXIST, and its files with EPERM for ever.
status gfarm_engine::connect(const std::string &url) {
  auto const root = gfarm_root(url);
  auto &calls = gfarm_calls::of_process();
  if (calls.has_server(root))
    return status::ok;
  library &gfarm = the_library();
  lock_guard const lock{gfarm.mutex};
  if (calls.has_server(root))
    return status::ok;
  if (!gfarm.initialized)
    TND_TRY(initialize());
  gfarm.initialized = true;
  struct gfs_stat found{};
  TND_TRY(gfarm_status(gfs_stat(root.c_str(), &found)));
  gfs_stat_free(&found);
  return gfarm_status(calls.add_server(root));
}

// Once a process, under the lock, as libgfarm demands; it is never terminated, since threads left
// behind may still be inside it. Whatever it starts inherits the workers' blocked signals. A
// failure is tried again at the next call.
status gfarm_engine::initialize() {
  int count = 1;
  char name[] = "tanada";
  char *arguments[] = {name, nullptr};
  char **list = arguments;
  auto const error = gfarm_initialize(&count, &list);
  if (error == GFARM_ERR_NO_ERROR) {
    gflog_set_priority_level(LOG_CRIT);  // its errors come to us as values
    return status::ok;
  }
  host_.log(2, (std::string{"gfarm_initialize: "} + gfarm_error_string(error) +
                "; set GFARM_CONFIG_FILE to a client's configuration")
                   .c_str());
  auto const code = gfarm_status(error);
  return code == status::no_entry ? status::invalid : code;  // no file of the caller's is missing
}

status gfarm_engine::open(const std::string &url, store_open_flags flags, store_file &file,
                          store_stat &stat) {
  TND_TRY(connect(url));
  auto made = std::make_shared<gfarm_file>();
  made->url = url;
  made->writable = flags.write;
  TND_TRY(gfarm_status(made->first.open(url, flags)));
  struct gfs_stat found{};
  TND_TRY(stat_handle(made->first, found));
  bool const directory = GFARM_S_ISDIR(found.st_mode);
  stat = stat_of(found, !flags.write);
  bool const several = !flags.write && found.st_ncopy > 1;
  gfs_stat_free(&found);
  if (directory)
    return status::is_directory;
  if (several)
    made->hosts = replica_hosts(url);
  // Now and not at the first read: a file unlinked meanwhile has no replica to connect to.
  if (!flags.write)
    made->descriptor = made->first.connect();
  file = files_.insert(std::move(made));
  return status::ok;
}

status gfarm_engine::close(store_file file, store_stat &stat) {
  auto const closed = files_.remove(file);
  if (!closed)
    return status::bad_file;
  unique_lock alone{closed->alive};
  closed->idle.clear();
  (void)closed->again.close();
  TND_TRY(gfarm_status(closed->first.close()));
  struct gfs_stat found{};
  auto const error = gfarm_calls::of_process().by_name(
      closed->url, [&] { return gfs_stat(closed->url.c_str(), &found); });
  if (error == GFARM_ERR_NO_ERROR) {
    stat = stat_of(found, true);
    gfs_stat_free(&found);
  }
  return status::ok;
}

status gfarm_engine::read(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
                          uint64_t &size) {
  auto const from = files_.find(file);
  if (!from)
    return status::bad_file;
  shared_lock lock{from->alive};
  if (!from->first.is_open())
    return status::bad_file;
  if (from->writable)
    return read_handle(from->first, buffers, offset, size);
  return from->hosts.size() < 2 ? read_alone(*from, buffers, offset, size)
                                : read_replicas(*from, buffers, offset, size);
}

int gfarm_engine::descriptor(store_file file) const {
  auto const of = files_.find(file);
  return of ? of->descriptor : -1;
}

status gfarm_engine::write(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
                           uint64_t &size) {
  auto const to = files_.find(file);
  if (!to || !to->writable)
    return status::bad_file;
  shared_lock lock{to->alive};
  if (!to->first.is_open())
    return status::bad_file;
  uint64_t wanted = 0;
  for (const auto &buffer : buffers)
    wanted += buffer.size;
  auto const put = [&](std::byte *addr, size_t part, uint64_t at, size_t &moved) {
    int count = 0;
    TND_TRY(gfarm_status(to->first.call([&](GFS_File handle) {
      return gfs_pio_pwrite(handle, addr, int(part), gfarm_off_t(at), &count);
    })));
    moved = size_t(count);
    return status::ok;
  };
  TND_TRY(move_buffers(buffers, offset, size, put));
  return size == wanted ? status::ok : status::io;
}

status gfarm_engine::stat(store_file file, store_stat &stat) {
  auto const of = files_.find(file);
  if (!of)
    return status::bad_file;
  shared_lock lock{of->alive};
  return of->first.is_open() ? handle_stat(of->first, !of->writable, stat) : status::bad_file;
}

status gfarm_engine::truncate(store_file file, uint64_t size) {
  auto const of = files_.find(file);
  if (!of || !of->writable)
    return status::bad_file;
  shared_lock lock{of->alive};
  if (!of->first.is_open())
    return status::bad_file;
  return gfarm_status(
      of->first.call([&](GFS_File handle) { return gfs_pio_truncate(handle, gfarm_off_t(size)); }));
}

status gfarm_engine::sync(store_file file) {
  auto const of = files_.find(file);
  if (!of)
    return status::bad_file;
  shared_lock lock{of->alive};
  if (!of->first.is_open())
    return status::bad_file;
  return of->writable
             ? gfarm_status(of->first.call([](GFS_File handle) { return gfs_pio_sync(handle); }))
             : status::ok;
}

status gfarm_engine::unlink(const std::string &url) {
  TND_TRY(connect(url));
  return gfarm_status(
      gfarm_calls::of_process().by_name(url, [&] { return gfs_unlink(url.c_str()); }));
}

status gfarm_engine::list(const std::string &prefix, std::vector<std::string> &names) {
  TND_TRY(connect(prefix));
  size_t const cut = prefix.rfind('/') + 1;
  std::string const folder = prefix.substr(0, cut), start = prefix.substr(cut);
  lock_guard lock{the_library().directory_mutex};
  GFS_Dir directory = nullptr;
  auto &calls = gfarm_calls::of_process();
  auto const opened =
      gfarm_status(calls.by_name(folder, [&] { return gfs_opendir(folder.c_str(), &directory); }));
  if (opened != status::ok)
    return opened == status::no_entry || opened == status(-ENOTDIR) ? status::ok : opened;
  gfs_dirent *entry = nullptr;
  status code = status::ok;
  for (;;) {
    code = gfarm_status(calls.once([&] { return gfs_readdir(directory, &entry); }));
    if (code != status::ok || entry == nullptr)
      break;
    std::string_view const name{entry->d_name, entry->d_namlen};
    if (name == "." || name == ".." || !name.starts_with(start))
      continue;
    if (names.size() == list_count_max) {
      code = status::overflow;
      break;
    }
    names.push_back(folder + std::string{name} + (entry->d_type == GFS_DT_DIR ? "/" : ""));
  }
  (void)calls.once([&] { return gfs_closedir(directory); });
  std::sort(names.begin(), names.end());
  return code;
}

}  // namespace tanada::port
