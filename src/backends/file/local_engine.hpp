// backends/file/local_engine.hpp: an engine in front of a plugin's, which reads what lies on this
// machine by its descriptor.
#pragma once

#include <unordered_map>

#include "core/base/mutex.hpp"
#include "backends/file/ring_engine.hpp"

namespace tanada::port {

// Files that are open to read and for which the plugin's engine tells a descriptor are read as
// those of file://, by rings and into device memory where that is possible. Everything else is the
// plugin's; where its bytes lie in memory of its own, access() tells.
class local_engine final : public ring_engine {
 public:
  local_engine(std::shared_ptr<blocking_engine> plugin, file_direct direct)
      : ring_engine{direct}, plugin_{std::move(plugin)} {}

  const char *scheme() const noexcept override {
    return plugin_->scheme();
  }
  status open(const std::string &url, store_open_flags flags, store_file &file,
              store_stat &stat) override;
  status close(store_file file, store_stat &stat) override;
  status read(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
              uint64_t &size) override;
  status write(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
               uint64_t &size) override {
    return plugin_->write(file, offset, buffers, size);
  }
  status stat(store_file file, store_stat &stat) override {
    return plugin_->stat(file, stat);
  }
  status truncate(store_file file, uint64_t size) override {
    return plugin_->truncate(file, size);
  }
  status sync(store_file file) override {
    return plugin_->sync(file);
  }
  status unlink(const std::string &url) override {
    return plugin_->unlink(url);
  }
  status list(const std::string &prefix, std::vector<std::string> &names) override {
    return plugin_->list(prefix, names);
  }
  status sync_names(const std::string &url) override {
    return plugin_->sync_names(url);
  }

  std::shared_ptr<local_file> find(store_file file) const override;
  file_access access(store_file file) const override;

 private:
  struct opened {
    std::shared_ptr<local_file> local;  // or null
    store_memory memory;
    std::string reason;  // why there is none
  };

  std::shared_ptr<blocking_engine> plugin_;
  mutable shared_mutex mutex_;                    // guards files_
  std::unordered_map<store_file, opened> files_;  // to read, by the plugin's numbers
};

}  // namespace tanada::port
