// backends/gfarm/gfarm_engine.cc: Gfarm files through libgfarm.
#include "backends/gfarm/gfarm_engine.hpp"

#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "core/base/mutex.hpp"
#include "seams/store/errno_status.hpp"
#include "seams/store/version_hash.hpp"

namespace tanada::backends {
namespace {

constexpr size_t call_size_max = 64 << 20;
static_assert(call_size_max <= INT_MAX);  // libgfarm's sizes are int
// A request to a gfsd takes as long as the transfer of some 100 KiB, and libgfarm sends the next
// one only after the answer. Small buffers are therefore filled from one request of this size.
constexpr size_t gathered_size_max = 1 << 20;
constexpr size_t small_size_max = 256 << 10;
static_assert(small_size_max <= gathered_size_max && gathered_size_max <= call_size_max);
constexpr size_t list_count_max = 1'000'000;

status gfarm_status(gfarm_error_t error) {
  return error == GFARM_ERR_NO_ERROR ? status::ok
                                     : seams::errno_status(gfarm_error_to_errno(error));
}

// Gfarm gives a file a new generation whenever a writer closes it changed. Until then the bytes may
// change under the old generation, so a file that this process has open for writing is never
// settled.
seams::store_stat stat_of(const struct gfs_stat &file_stat, bool settled) {
  uint64_t const version = seams::version_hash({file_stat.st_ino,
                                                file_stat.st_gen,
                                                uint64_t(file_stat.st_mtimespec.tv_sec),
                                                uint64_t(file_stat.st_mtimespec.tv_nsec),
                                                uint64_t(file_stat.st_size)});
  return {.size = uint64_t(file_stat.st_size), .version = version, .is_version_stable = settled};
}

status stat_handle(const gfarm_handle &handle, struct gfs_stat &file_stat) {
  return gfarm_status(handle.call([&](GFS_File file) { return gfs_pio_stat(file, &file_stat); }));
}

status handle_stat(const gfarm_handle &handle, bool settled, seams::store_stat &stat) {
  struct gfs_stat file_stat{};
  TND_TRY(stat_handle(handle, file_stat));
  stat = stat_of(file_stat, settled);
  gfs_stat_free(&file_stat);
  return status::ok;
}

std::vector<std::string> replica_hosts(const std::string &url) {
  std::vector<std::string> hosts;
  gfs_replica_info *info = nullptr;
  auto const error = gfarm_calls::process_instance().by_name(
      url, [&] { return gfs_replica_info_by_name(url.c_str(), 0, &info); });
  if (error != GFARM_ERR_NO_ERROR)
    return hosts;
  for (int i = 0; i < gfs_replica_info_number(info); i++)
    hosts.emplace_back(gfs_replica_info_nth_host(info, i));
  gfs_replica_info_free(info);
  return hosts;
}

// Moves all buffers with `call`(addr, size, offset, moved), which moves a part and sets `moved`.
// Stops when a call moves nothing.
template <class Call>
status move_buffers(std::span<const seams::store_buffer> buffers,
                    uint64_t offset,
                    uint64_t &size,
                    Call call) {
  for (const auto &buffer : buffers) {
    for (size_t done = 0; done < buffer.size;) {
      size_t moved = 0;
      TND_TRY(call(
          buffer.addr + done, std::min(buffer.size - done, call_size_max), offset + size, moved));
      if (moved == 0)
        return status::ok;
      done += moved;
      size += moved;
    }
  }
  return status::ok;
}

// Reads ranges of memory one after the other, and adds their bytes to `size`.
status read_ranges(const gfarm_handle &handle,
                   std::span<const seams::store_buffer> ranges,
                   uint64_t offset,
                   uint64_t &size) {
  return move_buffers(
      ranges, offset, size, [&](std::byte *addr, size_t part, uint64_t position, size_t &moved) {
        int count = 0;
        TND_TRY(gfarm_status(handle.call([&](GFS_File file) {
          return gfs_pio_pread(file, addr, int(part), gfarm_off_t(position), &count);
        })));
        moved = size_t(count);
        return status::ok;
      });
}

uint64_t size_of(std::span<const seams::store_buffer> ranges) {
  uint64_t size = 0;
  for (const auto &range : ranges)
    size += range.size;
  return size;
}

// Reads the ranges with requests for all of them, and copies the bytes.
status read_gathered(const gfarm_handle &handle,
                     std::span<const seams::store_buffer> ranges,
                     uint64_t offset,
                     uint64_t &size) {
  thread_local std::unique_ptr<std::byte[]> const bytes{new std::byte[gathered_size_max]};
  size_t const wanted_size = size_of(ranges);
  TND_ASSERT(wanted_size <= gathered_size_max);
  seams::store_buffer const whole{bytes.get(), wanted_size};
  uint64_t const begin = size;
  status const code = read_ranges(handle, {&whole, 1}, offset, size);
  uint64_t copied_size = 0;
  for (const auto &range : ranges) {
    uint64_t const part = std::min<uint64_t>(range.size, size - begin - copied_size);
    std::memcpy(range.addr, bytes.get() + copied_size, part);
    copied_size += part;
  }
  return code;
}

// How many of the ranges are small and fit into one request.
size_t gathered_count(std::span<const seams::store_buffer> ranges) {
  size_t count = 0;
  for (uint64_t sum = 0; count < ranges.size(); count++) {
    sum += ranges[count].size;
    if (ranges[count].size > small_size_max || sum > gathered_size_max)
      break;
  }
  return count;
}

status read_handle(const gfarm_handle &handle,
                   std::span<const seams::store_buffer> buffers,
                   uint64_t offset,
                   uint64_t &size) {
  size = 0;
  std::vector<seams::store_buffer> ranges;
  for (size_t i = 0; i < buffers.size();)
    ranges.push_back(seams::take_adjacent(buffers, i));
  for (size_t first = 0; first < ranges.size();) {
    std::span<const seams::store_buffer> const rest{ranges.data() + first, ranges.size() - first};
    size_t const small_count = gathered_count(rest);
    size_t const count = std::max<size_t>(small_count, 1);
    uint64_t const before = size;
    TND_TRY(small_count > 1 ? read_gathered(handle, rest.first(count), offset, size)
                            : read_ranges(handle, rest.first(count), offset, size));
    if (size - before < size_of(rest.first(count)))
      return status::ok;  // the end of the file
    first += count;
  }
  return status::ok;
}

// One replica: one handle serves all reads, since libgfarm has only one transfer in flight on a
// connection. While the handle works, no file is opened or closed, because that contacts gfmd
// (three attempts of three seconds if it is dead) and the gfsd.
status read_single(gfarm_file &file,
                   std::span<const seams::store_buffer> buffers,
                   uint64_t offset,
                   uint64_t &size) {
  lock_guard lock{file.primary_mutex};
  if (!file.primary_failed) {
    auto const code = read_handle(file.primary, buffers, offset, size);
    file.primary_failed = code != status::ok;
    return code;
  }
  if (!file.reopened.is_open()) {
    auto const code = gfarm_status(file.reopened.open(file.url, {.read = true}));
    if (code == status::no_entry)
      return read_handle(file.primary, buffers, offset, size);  // the file was unlinked
    if (code != status::ok)
      return code;
  }
  auto const code = read_handle(file.reopened, buffers, offset, size);
  if (code != status::ok)
    (void)file.reopened.close();
  return code;
}

// Gives the caller a handle of its own: an idle one, or a new one on the next replica.
status acquire(gfarm_file &file, gfarm_handle &handle) {
  std::string host;
  {
    lock_guard lock{file.mutex};
    if (!file.idle.empty()) {
      handle = std::move(file.idle.back());
      file.idle.pop_back();
      return status::ok;
    }
    TND_ASSERT(!file.hosts.empty());
    host = file.hosts[file.next_host++ % file.hosts.size()];
  }
  TND_TRY(gfarm_status(handle.open(file.url, {.read = true})));
  // If the host no longer serves the file, libgfarm chooses another one.
  if (handle.prefer(host) != GFARM_ERR_NO_ERROR) {
    TND_TRY(gfarm_status(handle.close()));
    return gfarm_status(handle.open(file.url, {.read = true}));
  }
  return status::ok;
}

// A handle that failed is dropped with its connection. The next read opens another, perhaps on a
// better host.
status read_replicas(gfarm_file &file,
                     std::span<const seams::store_buffer> buffers,
                     uint64_t offset,
                     uint64_t &size) {
  unique_lock primary_lock{file.primary_mutex, std::try_to_lock};
  gfarm_handle handle;
  bool use_primary = primary_lock.owns_lock() && !file.primary_failed;
  if (!use_primary) {
    auto const code = acquire(file, handle);
    use_primary =
        code == status::no_entry;  // unlinked: only the first handle still reaches the file
    if (code != status::ok && !use_primary)
      return code;
  }
  if (use_primary) {
    auto const code = read_handle(file.primary, buffers, offset, size);
    if (code != status::ok)
      file.primary_failed = true;
    return code;
  }
  TND_TRY(read_handle(handle, buffers, offset, size));
  lock_guard lock{file.mutex};
  file.idle.push_back(std::move(handle));
  return status::ok;
}

// Process-wide state of libgfarm, shared by all engines. It is never destroyed, because abandoned
// threads may still use it.
struct library {
  tanada::mutex mutex;  // guards `initialized`
  bool initialized = false;
  tanada::mutex directory_mutex;  // libgfarm's directory reads are not thread-safe
};
library &library_instance() {
  static auto *const instance = new library;
  return *instance;
}

}  // namespace

// Connects to the metadata server of the URL. Only one thread of the process does so at a time. If
// two threads open their first files together, libgfarm makes two connections: one fails with
// EEXIST, and its files fail with EPERM from then on.
status gfarm_engine::connect(const std::string &url) {
  auto const root = gfarm_root(url);
  auto &calls = gfarm_calls::process_instance();
  if (calls.has_server(root))
    return status::ok;
  library &gfarm = library_instance();
  lock_guard const lock{gfarm.mutex};
  if (calls.has_server(root))
    return status::ok;
  if (!gfarm.initialized)
    TND_TRY(initialize());
  gfarm.initialized = true;
  struct gfs_stat file_stat{};
  TND_TRY(gfarm_status(gfs_stat(root.c_str(), &file_stat)));
  gfs_stat_free(&file_stat);
  return gfarm_status(calls.add_server(root));
}

// Runs once in a process, under the lock, as libgfarm requires. It is never terminated, since
// abandoned threads may still be inside it. Threads that it starts inherit the workers' blocked
// signals. A failure is retried at the next call.
status gfarm_engine::initialize() {
  TND_ASSERT(library_instance().mutex.is_held() && !library_instance().initialized);
  int count = 1;
  char name[] = "tanada";
  char *arguments[] = {name, nullptr};
  char **list = arguments;
  auto const error = gfarm_initialize(&count, &list);
  if (error == GFARM_ERR_NO_ERROR) {
    gflog_set_priority_level(LOG_CRIT);  // errors are returned as values
    return status::ok;
  }
  host_.log(2,
            (std::string{"gfarm_initialize: "} + gfarm_error_string(error) +
             "; set GFARM_CONFIG_FILE to a client's configuration")
                .c_str());
  auto const code = gfarm_status(error);
  return code == status::no_entry ? status::invalid : code;  // it is not the caller's file that is
                                                             // missing
}

status gfarm_engine::open(const std::string &url,
                          seams::store_open_flags flags,
                          seams::store_file &file,
                          seams::store_stat &stat) {
  TND_TRY(connect(url));
  auto handle_state = std::make_shared<gfarm_file>();
  handle_state->url = url;
  handle_state->writable = flags.write;
  TND_TRY(gfarm_status(handle_state->primary.open(url, flags)));
  struct gfs_stat file_stat{};
  TND_TRY(stat_handle(handle_state->primary, file_stat));
  bool const directory = GFARM_S_ISDIR(file_stat.st_mode);
  stat = stat_of(file_stat, !flags.write);
  bool const is_replicated = !flags.write && file_stat.st_ncopy > 1;
  gfs_stat_free(&file_stat);
  if (directory)
    return status::is_directory;
  if (is_replicated)
    handle_state->hosts = replica_hosts(url);
  // Connect now and not at the first read: a file that is unlinked meanwhile has no replica to
  // connect to.
  if (!flags.write)
    handle_state->descriptor = handle_state->primary.connect();
  file = files_.insert(std::move(handle_state));
  return status::ok;
}

status gfarm_engine::close(seams::store_file file, seams::store_stat &stat) {
  auto const closed = files_.remove(file);
  if (!closed)
    return status::bad_file;
  unique_lock exclusive_lock{closed->close_mutex};
  closed->idle.clear();
  (void)closed->reopened.close();
  TND_TRY(gfarm_status(closed->primary.close()));
  struct gfs_stat file_stat{};
  auto const error = gfarm_calls::process_instance().by_name(
      closed->url, [&] { return gfs_stat(closed->url.c_str(), &file_stat); });
  if (error == GFARM_ERR_NO_ERROR) {
    stat = stat_of(file_stat, true);
    gfs_stat_free(&file_stat);
  }
  return status::ok;
}

status gfarm_engine::read(seams::store_file file,
                          uint64_t offset,
                          std::span<const seams::store_buffer> buffers,
                          uint64_t &size) {
  auto const source = files_.find(file);
  if (!source)
    return status::bad_file;
  shared_lock lock{source->close_mutex};
  if (!source->primary.is_open())
    return status::bad_file;
  if (source->writable)
    return read_handle(source->primary, buffers, offset, size);
  return source->hosts.size() < 2 ? read_single(*source, buffers, offset, size)
                                  : read_replicas(*source, buffers, offset, size);
}

int gfarm_engine::descriptor(seams::store_file file) const {
  auto const entry = files_.find(file);
  return entry ? entry->descriptor : -1;
}

status gfarm_engine::write(seams::store_file file,
                           uint64_t offset,
                           std::span<const seams::store_buffer> buffers,
                           uint64_t &size) {
  auto const target = files_.find(file);
  if (!target || !target->writable)
    return status::bad_file;
  shared_lock lock{target->close_mutex};
  if (!target->primary.is_open())
    return status::bad_file;
  uint64_t total = 0;
  for (const auto &buffer : buffers)
    total += buffer.size;
  auto const put = [&](std::byte *addr, size_t part, uint64_t position, size_t &moved) {
    int count = 0;
    TND_TRY(gfarm_status(target->primary.call([&](GFS_File handle) {
      return gfs_pio_pwrite(handle, addr, int(part), gfarm_off_t(position), &count);
    })));
    moved = size_t(count);
    return status::ok;
  };
  TND_TRY(move_buffers(buffers, offset, size, put));
  return size == total ? status::ok : status::io;
}

status gfarm_engine::stat(seams::store_file file, seams::store_stat &stat) {
  auto const entry = files_.find(file);
  if (!entry)
    return status::bad_file;
  shared_lock lock{entry->close_mutex};
  return entry->primary.is_open() ? handle_stat(entry->primary, !entry->writable, stat)
                                  : status::bad_file;
}

status gfarm_engine::truncate(seams::store_file file, uint64_t size) {
  auto const entry = files_.find(file);
  if (!entry || !entry->writable)
    return status::bad_file;
  shared_lock lock{entry->close_mutex};
  if (!entry->primary.is_open())
    return status::bad_file;
  return gfarm_status(entry->primary.call(
      [&](GFS_File handle) { return gfs_pio_truncate(handle, gfarm_off_t(size)); }));
}

status gfarm_engine::sync(seams::store_file file) {
  auto const entry = files_.find(file);
  if (!entry)
    return status::bad_file;
  shared_lock lock{entry->close_mutex};
  if (!entry->primary.is_open())
    return status::bad_file;
  return entry->writable ? gfarm_status(entry->primary.call(
                               [](GFS_File handle) { return gfs_pio_sync(handle); }))
                         : status::ok;
}

status gfarm_engine::unlink(const std::string &url) {
  TND_TRY(connect(url));
  return gfarm_status(
      gfarm_calls::process_instance().by_name(url, [&] { return gfs_unlink(url.c_str()); }));
}

namespace {

// Appends the names in a folder that begin with `start`, each after `folder`.
status append_names(GFS_Dir directory,
                    const std::string &folder,
                    std::string_view start,
                    std::vector<std::string> &names) {
  auto &calls = gfarm_calls::process_instance();
  for (;;) {
    gfs_dirent *entry = nullptr;
    TND_TRY(gfarm_status(calls.once([&] { return gfs_readdir(directory, &entry); })));
    if (entry == nullptr)
      return status::ok;
    std::string_view const name{entry->d_name, entry->d_namlen};
    if (name == "." || name == ".." || !name.starts_with(start))
      continue;
    if (names.size() == list_count_max)
      return status::overflow;
    names.push_back(folder + std::string{name} + (entry->d_type == GFS_DT_DIR ? "/" : ""));
  }
}

}  // namespace

status gfarm_engine::list(const std::string &prefix, std::vector<std::string> &names) {
  TND_TRY(connect(prefix));
  size_t const cut = prefix.rfind('/') + 1;
  std::string const folder = prefix.substr(0, cut), start = prefix.substr(cut);
  lock_guard lock{library_instance().directory_mutex};
  GFS_Dir directory = nullptr;
  auto &calls = gfarm_calls::process_instance();
  auto const opened =
      gfarm_status(calls.by_name(folder, [&] { return gfs_opendir(folder.c_str(), &directory); }));
  if (opened != status::ok)
    return opened == status::no_entry || opened == status(-ENOTDIR) ? status::ok : opened;
  status const code = append_names(directory, folder, start, names);
  (void)calls.once([&] { return gfs_closedir(directory); });
  std::sort(names.begin(), names.end());
  return code;
}

}  // namespace tanada::backends
