#include "backends/file/local_engine.hpp"

#include <fcntl.h>

#include "core/base/mutex.hpp"

namespace tanada::port {

status local_engine::open(const std::string &url, store_open_flags flags, store_file &file,
                          store_stat &stat) {
  TND_TRY(plugin_->open(url, flags, file, stat));
  if (flags.write)
    return status::ok;
  opened made;
  int const theirs = plugin_->descriptor(file);
  int const mine =
      theirs < 0 ? -1 : fcntl(theirs, F_DUPFD_CLOEXEC, 0);  // reads under way outlive the close
  if (mine >= 0) {
    made.local = std::make_shared<local_file>(mine, false);
    reader_.prepare(*made.local, stat.size);
  } else {
    made.memory = plugin_->memory(file, made.reason);
  }
  unique_lock const lock{mutex_};
  files_[file] = std::move(made);
  return status::ok;
}

status local_engine::close(store_file file, store_stat &stat) {
  opened gone;  // let go without the lock
  {
    unique_lock const lock{mutex_};
    if (auto const found = files_.find(file); found != files_.end()) {
      gone = std::move(found->second);
      files_.erase(found);
    }
  }
  gone = {};
  return plugin_->close(file, stat);
}

status local_engine::read(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
                          uint64_t &size) {
  auto const local = find(file);
  return local ? reader_.read(*local, offset, buffers, size)
               : plugin_->read(file, offset, buffers, size);
}

std::shared_ptr<local_file> local_engine::find(store_file file) const {
  shared_lock const lock{mutex_};
  auto const found = files_.find(file);
  return found == files_.end() ? nullptr : found->second.local;
}

file_access local_engine::access(store_file file) const {
  auto const local = find(file);
  if (!local) {
    shared_lock const lock{mutex_};
    auto const known = files_.find(file);
    if (known == files_.end())
      return {};
    return {.direct = {},
            .memory = known->second.memory,
            .sealed = true,
            .reason = known->second.reason};
  }
  file_access found = reader_.access(*local);
  if (!local->in_memory)
    found.cached_descriptor = local->fd;
  return found;
}

}  // namespace tanada::port
