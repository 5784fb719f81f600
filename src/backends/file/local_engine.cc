// backends/file/local_engine.cc: reads local files of a plugin by their descriptors.
#include "backends/file/local_engine.hpp"

#include <fcntl.h>

#include "core/base/mutex.hpp"

namespace tanada::backends {

status local_engine::open(const std::string &url,
                          seams::store_open_flags flags,
                          seams::store_file &file,
                          seams::store_stat &stat) {
  TND_TRY(plugin_->open(url, flags, file, stat));
  if (flags.write)
    return status::ok;
  open_file entry;
  int const plugin_descriptor = plugin_->descriptor(file);
  int const own_descriptor = plugin_descriptor < 0 ? -1
                                                   : fcntl(plugin_descriptor,
                                                           F_DUPFD_CLOEXEC,
                                                           0);  // reads in flight outlive the close
  if (own_descriptor >= 0) {
    entry.local = std::make_shared<local_file>(own_descriptor, false);
    reader_.prepare(*entry.local, stat.size);
  } else {
    entry.memory = plugin_->memory(file, entry.reason);
  }
  unique_lock const lock{mutex_};
  files_[file] = std::move(entry);
  return status::ok;
}

status local_engine::close(seams::store_file file, seams::store_stat &stat) {
  open_file removed;  // released outside the lock
  {
    unique_lock const lock{mutex_};
    if (auto const it = files_.find(file); it != files_.end()) {
      removed = std::move(it->second);
      files_.erase(it);
    }
  }
  removed = {};
  return plugin_->close(file, stat);
}

status local_engine::read(seams::store_file file,
                          uint64_t offset,
                          std::span<const seams::store_buffer> buffers,
                          uint64_t &size) {
  auto const local = find(file);
  return local ? reader_.read(*local, offset, buffers, size)
               : plugin_->read(file, offset, buffers, size);
}

std::shared_ptr<local_file> local_engine::find(seams::store_file file) const {
  shared_lock const lock{mutex_};
  auto const it = files_.find(file);
  return it == files_.end() ? nullptr : it->second.local;
}

seams::file_access local_engine::access(seams::store_file file) const {
  auto const local = find(file);
  if (!local) {
    shared_lock const lock{mutex_};
    auto const it = files_.find(file);
    if (it == files_.end())
      return {};
    return {
        .direct = {}, .memory = it->second.memory, .is_sealed = true, .reason = it->second.reason};
  }
  seams::file_access result = reader_.access(*local);
  if (!local->in_memory)
    result.cached_descriptor = local->fd;
  return result;
}

}  // namespace tanada::backends
