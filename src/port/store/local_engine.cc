#include "port/store/local_engine.hpp"

#include <fcntl.h>

namespace tanada::port {

status local_engine::open(const std::string &url, store_open_flags flags, store_file &file, store_stat &stat) {
  TND_TRY(plugin_->open(url, flags, file, stat));
  int const theirs = flags.write ? -1 : plugin_->descriptor(file);
  int const mine = theirs < 0 ? -1 : fcntl(theirs, F_DUPFD_CLOEXEC, 0);  // reads under way outlive the close
  if (mine < 0) return status::ok;
  auto made = std::make_shared<local_file>(mine, false);
  reader_.prepare(*made, stat.size);
  std::unique_lock const lock{mutex_};
  files_[file] = std::move(made);
  return status::ok;
}

status local_engine::close(store_file file, store_stat &stat) {
  {
    std::unique_lock const lock{mutex_};
    files_.erase(file);
  }
  return plugin_->close(file, stat);
}

status local_engine::read(store_file file, uint64_t offset, std::span<const store_buffer> buffers, uint64_t &size) {
  auto const local = find(file);
  return local ? reader_.read(*local, offset, buffers, size) : plugin_->read(file, offset, buffers, size);
}

std::shared_ptr<local_file> local_engine::find(store_file file) const {
  std::shared_lock const lock{mutex_};
  auto const found = files_.find(file);
  return found == files_.end() ? nullptr : found->second;
}

file_access local_engine::access(store_file file) const {
  auto const local = find(file);
  if (!local) return {};
  file_access found = reader_.access(*local);
  if (!local->in_memory) found.cached_descriptor = local->fd;
  return found;
}

}  // namespace tanada::port
