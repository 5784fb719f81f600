// products/pool/store/pool_engine.hpp: pool://host[:port]/namespace/object as a store, over the
// pool's C API.
#pragma once

#include <array>
#include <map>

#include "core/base/mutex.hpp"
#include "seams/store/blocking_store.hpp"
#include "seams/store/handle_table.hpp"
#include "seams/store/store_plugin.hpp"

struct tnd_pool;
struct tnd_pool_object;

namespace tanada::pool {

// Connections to one namespace of one pool, shared by all of its files. Calls on one connection
// exclude each other.
class pool_target {
 public:
  static constexpr size_t connection_count = 5;
  // The connection for changes, and for some of the reads.
  static constexpr size_t write_connection = 0;
  // The connection for files that are only read. No commit to a slow disk and no other change can
  // break it. This matters because mapped memory is valid only as long as the daemon knows the
  // handles.
  static constexpr size_t read_connection = connection_count - 1;
  static_assert(write_connection != read_connection);
  // `window`: device memory that is read into, or null.
  pool_target(std::string url, std::shared_ptr<const seams::device_window> window)
      : url_{std::move(url)}, window_{std::move(window)} {}
  ~pool_target();

  // Connects at first use. On an error, tnd_last_message() has the reason.
  status connection(size_t index, tnd_pool *&pool);

  // How a connection reads into the window.
  seams::direct_offer direct(tnd_pool *pool) const;
  // Lets the pool write into the window without a registration for each read. It has to be repeated
  // when a connection has been lost.
  void register_window(tnd_pool *pool) const;
  // Whether the buffer is device memory that no processor reaches.
  bool is_on_device(const seams::store_buffer &buffer) const {
    return window_ != nullptr && !window_->is_host_memory && window_->contains(buffer);
  }

 private:
  std::string const url_;
  std::shared_ptr<const seams::device_window> const window_;
  mutex mutex_;
  std::array<tnd_pool *, connection_count> pools_ TND_GUARDED_BY(mutex_){};
};

// An open object as a file. Writes are collected in a new version, which close and sync commit. At
// the first write, the daemon copies the previous version.
class pool_file {
 public:
  pool_file(std::shared_ptr<pool_target> target, std::string name, seams::store_open_flags flags)
      : target_{std::move(target)}, name_{std::move(name)}, flags_{flags} {}
  ~pool_file();

  status open(seams::store_stat &stat);
  status close(seams::store_stat &stat);
  status read(uint64_t offset, std::span<const seams::store_buffer> buffers, uint64_t &size);
  status write(uint64_t offset, std::span<const seams::store_buffer> buffers, uint64_t &size);
  status stat(seams::store_stat &stat);
  status truncate(uint64_t size);
  status sync();
  // See blocking_engine::memory().
  seams::store_memory memory(std::string &reason);
  const seams::direct_offer &direct() const noexcept {
    return direct_;
  }

 private:
  // The deleter closes the object, and keeps the connections until then.
  using object_ptr = std::shared_ptr<tnd_pool_object>;
  struct reader {
    object_ptr object;
    bool busy = false;
  };
  object_ptr make_object_ptr(tnd_pool_object *object) const;
  size_t connection_of(size_t index) const;
  status begin_writing(bool keeps_bytes) TND_REQUIRES(mutex_);
  status commit() TND_REQUIRES(mutex_);
  status read_from(tnd_pool_object *object,
                   uint64_t offset,
                   std::span<const seams::store_buffer> buffers,
                   uint64_t &size);
  status open_reader(size_t index) TND_REQUIRES(mutex_);
  void close_readers() TND_REQUIRES(mutex_);
  // Waits for a reader that is not busy, and opens it if necessary.
  status acquire_reader(unique_lock<mutex> &lock, size_t &index) TND_REQUIRES(mutex_);
  bool are_readers_busy() const TND_REQUIRES(mutex_);

  std::shared_ptr<pool_target> const target_;
  std::string const name_;
  seams::store_open_flags const flags_;
  seams::direct_offer direct_;  // since the open
  mutex mutex_;
  condition_variable free_;
  std::array<reader, pool_target::connection_count - 1> readers_ TND_GUARDED_BY(mutex_);
  tnd_pool_object *writer_ TND_GUARDED_BY(mutex_) = nullptr;
  uint64_t version_ TND_GUARDED_BY(mutex_) = 0;  // the pool's
  uint64_t size_ TND_GUARDED_BY(mutex_) = 0;
  // Distinguishes the version from one with the same number in a pool that was created anew.
  uint64_t identity_ TND_GUARDED_BY(mutex_) = 0;
};

class pool_engine final : public seams::blocking_engine {
 public:
  explicit pool_engine(const seams::store_plugin_host &host) : host_{host} {}

  const char *scheme() const noexcept override {
    return "pool";
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
               uint64_t &size) override;
  status stat(seams::store_file file, seams::store_stat &stat) override;
  status truncate(seams::store_file file, uint64_t size) override;
  status sync(seams::store_file file) override;
  seams::store_memory memory(seams::store_file file, std::string &reason) override;
  void attach(const seams::device_window &window, bool compatible_too) override;
  std::optional<seams::direct_offer> direct(seams::store_file file) const override;
  status unlink(const std::string &url) override;
  status list(const std::string &prefix, std::vector<std::string> &names) override;

 private:
  status target_of(const std::string &url, std::shared_ptr<pool_target> &target, std::string &name);

  seams::store_plugin_host const host_;
  std::shared_ptr<const seams::device_window> window_;  // since before the first open
  seams::handle_table<pool_file> files_;
  mutex mutex_;
  // By "host:port/namespace".
  std::map<std::string, std::shared_ptr<pool_target>> targets_ TND_GUARDED_BY(mutex_);
};

}  // namespace tanada::pool
