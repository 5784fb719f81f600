// backends/file/local_engine.hpp: wraps the engine of a plugin and reads files of this machine by
// their descriptors.
#pragma once

#include <unordered_map>

#include "core/base/mutex.hpp"
#include "backends/file/ring_engine.hpp"

namespace tanada::backends {

// A file that is open for reading and whose descriptor the plugin's engine returns is read as
// file:// reads it: by rings, and into device memory where possible. All other operations go to the
// plugin. access() reports files whose bytes are in the plugin's own memory.
class local_engine final : public ring_engine {
 public:
  local_engine(std::shared_ptr<seams::blocking_engine> plugin, file_direct direct)
      : ring_engine{direct}, plugin_{std::move(plugin)} {}

  const char *scheme() const noexcept override {
    return plugin_->scheme();
  }
  status open(const std::string &url,
              seams::store_open_flags flags,
              seams::store_file &file,
              seams::store_stat &stat) override;
  status close(seams::store_file file, seams::store_stat &stat) override;
  status read(seams::store_file file,
              uint64_t offset,
              std::span<const seams::store_buffer> buffers,
              uint64_t &size) override;
  status write(seams::store_file file,
               uint64_t offset,
               std::span<const seams::store_buffer> buffers,
               uint64_t &size) override {
    return plugin_->write(file, offset, buffers, size);
  }
  status stat(seams::store_file file, seams::store_stat &stat) override {
    return plugin_->stat(file, stat);
  }
  status truncate(seams::store_file file, uint64_t size) override {
    return plugin_->truncate(file, size);
  }
  status sync(seams::store_file file) override {
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
  void attach(const seams::device_window &window, bool compatible_too) override {
    ring_engine::attach(window, compatible_too);
    plugin_->attach(window, compatible_too);
  }
  std::optional<seams::direct_offer> direct(seams::store_file file) const override {
    return plugin_->direct(file);
  }

  std::shared_ptr<local_file> find(seams::store_file file) const override;
  seams::file_access access(seams::store_file file) const override;

 private:
  struct open_file {
    std::shared_ptr<local_file> local;  // or null
    seams::store_memory memory;
    std::string reason;  // why `memory` is empty
  };

  std::shared_ptr<seams::blocking_engine> plugin_;
  mutable shared_mutex mutex_;
  // Files open for reading, by the plugin's file numbers.
  std::unordered_map<seams::store_file, open_file> files_ TND_GUARDED_BY(mutex_);
};

}  // namespace tanada::backends
