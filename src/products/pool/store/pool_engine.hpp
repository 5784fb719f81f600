// products/pool/store/pool_engine.hpp: pool://host[:port]/namespace/object as a store, over the
// pool's C API.
#pragma once

#include <array>
#include <condition_variable>
#include <map>
#include <mutex>

#include "seams/store/blocking_store.hpp"
#include "seams/store/handle_table.hpp"
#include "seams/store/store_plugin.hpp"

struct tnd_pool;
struct tnd_pool_object;

namespace tanada::pool {

// Connections to one namespace of one pool, shared by all of its files: calls on one exclude each
// other.
class pool_target {
 public:
  static constexpr size_t connection_count = 5;
  // What changes something goes by this one, and reads beside others'.
  static constexpr size_t changing = 0;
  // Files that are only read are opened on this one. No commit to a slow disk and no other change
  // can break it: what they have mapped is theirs only as long as the daemon knows their handles.
  static constexpr size_t reading = connection_count - 1;
  explicit pool_target(std::string url) : url_{std::move(url)} {}
  ~pool_target();

  // Connected at first use. The message of tnd_last_message() says what is wrong.
  status connection(size_t index, tnd_pool *&pool);

 private:
  std::string const url_;
  std::mutex mutex_;
  std::array<tnd_pool *, connection_count> pools_{};
};

// An open object as a file. What is written gathers in a new version, which close and sync publish;
// an object that was there before is copied, by the daemon, at the first write.
class pool_file {
 public:
  pool_file(std::shared_ptr<pool_target> target, std::string name, port::store_open_flags flags)
      : target_{std::move(target)}, name_{std::move(name)}, flags_{flags} {}
  ~pool_file();

  status open(port::store_stat &stat);
  status close(port::store_stat &stat);
  status read(uint64_t offset, std::span<const port::store_buffer> buffers, uint64_t &size);
  status write(uint64_t offset, std::span<const port::store_buffer> buffers, uint64_t &size);
  status stat(port::store_stat &stat);
  status truncate(uint64_t size);
  status sync();
  // See blocking_engine::memory().
  port::store_memory memory(std::string &reason);

 private:
  using object_hold =
      std::shared_ptr<tnd_pool_object>;  // closes it, and keeps the connections until then
  struct reader {
    object_hold object;
    bool busy = false;
  };
  object_hold held(tnd_pool_object *object) const;
  size_t connection_of(size_t index) const;
  status begin_writing(bool keeps);
  status publish();
  status read_from(tnd_pool_object *object, uint64_t offset,
                   std::span<const port::store_buffer> buffers, uint64_t &size);
  status open_reader(size_t index);
  void close_readers();

  std::shared_ptr<pool_target> const target_;
  std::string const name_;
  port::store_open_flags const flags_;
  std::mutex mutex_;
  std::condition_variable free_;
  std::array<reader, pool_target::connection_count - 1> readers_;
  tnd_pool_object *writer_ = nullptr;
  uint64_t version_ = 0, size_ = 0;  // the pool's version
  uint64_t identity_ = 0;  // tells it from one of that number in a pool that was begun anew
};

class pool_engine final : public port::blocking_engine {
 public:
  explicit pool_engine(const port::store_plugin_host &host) : host_{host} {}

  const char *scheme() const noexcept override {
    return "pool";
  }
  status open(const std::string &url, port::store_open_flags flags, port::store_file &file,
              port::store_stat &stat) override;
  status close(port::store_file file, port::store_stat &stat) override;
  status read(port::store_file file, uint64_t offset, std::span<const port::store_buffer> buffers,
              uint64_t &size) override;
  status write(port::store_file file, uint64_t offset, std::span<const port::store_buffer> buffers,
               uint64_t &size) override;
  status stat(port::store_file file, port::store_stat &stat) override;
  status truncate(port::store_file file, uint64_t size) override;
  status sync(port::store_file file) override;
  port::store_memory memory(port::store_file file, std::string &reason) override;
  status unlink(const std::string &url) override;
  status list(const std::string &prefix, std::vector<std::string> &names) override;

 private:
  status target_of(const std::string &url, std::shared_ptr<pool_target> &target, std::string &name);

  port::store_plugin_host const host_;
  port::handle_table<pool_file> files_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<pool_target>> targets_;  // by "host:port/namespace"
};

}  // namespace tanada::pool
