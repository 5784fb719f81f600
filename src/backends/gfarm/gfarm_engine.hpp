// backends/gfarm/gfarm_engine.hpp: Gfarm through libgfarm, behind the blocking store.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.hpp"
#include "backends/gfarm/gfarm_calls.hpp"
#include "seams/store/handle_table.hpp"
#include "seams/store/store_plugin.hpp"

namespace tanada::port {

// One handle of libgfarm, closed with this object. libgfarm locks a handle during each call on it.
class gfarm_handle {
 public:
  gfarm_handle() = default;
  gfarm_handle(gfarm_handle &&other) noexcept
      : file_{std::exchange(other.file_, nullptr)} {}  // nobody calls it
  gfarm_handle &operator=(gfarm_handle &&other) noexcept;
  ~gfarm_handle() {
    (void)close();
  }

  gfarm_error_t open(const std::string &url, store_open_flags flags);
  gfarm_error_t close();
  bool is_open() const noexcept {
    return file_ != nullptr;
  }

  // call(GFS_File) by gfarm_calls. While no server of the file is reached libgfarm tries for
  // no_file_system_node_timeout of its settings, 30 s, in each call. So that not all workers wait
  // there, what such a call returned is returned at once for as long as it took.
  template <class Call>
  gfarm_error_t call(Call &&call) const {
    if (auto const error = known_error(); error != GFARM_ERR_NO_ERROR)
      return error;
    auto const begin = std::chrono::steady_clock::now();
    auto const error = gfarm_calls::of_process().on_file(file_, [&] { return call(file_); });
    if (error != GFARM_ERR_NO_ERROR)
      note_error(error, begin);
    return error;
  }

  // Connect to a replica. When it is local, a descriptor of its file, for the caller to close; else
  // -1.
  int connect() const noexcept;

  // Make this handle read from that host.
  gfarm_error_t prefer(const std::string &host);

 private:
  gfarm_error_t known_error() const;
  void note_error(gfarm_error_t error, std::chrono::steady_clock::time_point begin) const;

  GFS_File file_ = nullptr;
  mutable tanada::mutex mutex_;  // guards the next two
  mutable gfarm_error_t error_ = GFARM_ERR_NO_ERROR;
  mutable std::chrono::steady_clock::time_point known_until_{};
};

// An open file. One opened to read that has a local replica is read through its descriptor, by the
// core; it is one of our own, since libgfarm's goes when it fails over. libgfarm has one transfer
// under way on a handle and on a connection to a server: a remote file with one replica, or one
// opened to write, has one handle; one with several replicas has as many as readers need at a time,
// spread over the replicas.
//
// Locking: alive is held shared by everything that uses a handle and alone by close; first_use by
// the reader that has `first` or `again` to itself; mutex guards idle and next_host.
struct gfarm_file {
  gfarm_file() = default;
  ~gfarm_file();
  gfarm_file(const gfarm_file &) = delete;
  gfarm_file &operator=(const gfarm_file &) = delete;

  std::string url;
  bool writable = false;
  int descriptor = -1;
  gfarm_handle first;
  std::vector<std::string>
      hosts;  // of the replicas, when there are several and the file is only read
  shared_mutex alive;
  tanada::mutex first_use;
  std::atomic<bool> first_failed{false};
  gfarm_handle again;  // of a file with one replica, once `first` has failed
  tanada::mutex mutex;
  std::vector<gfarm_handle> idle;
  size_t next_host = 0;
};

// Handles are unbuffered: a buffered one fetches 1 MiB for a random page. Files are made with mode
// 0644. close publishes the size; errors of libgfarm come out as their errno.
//
// libgfarm is initialised, and a metadata server connected, by the first operation that needs it
// and not with the engine: that may take seconds, and the store is created by callers that must not
// wait.
class gfarm_engine final : public blocking_engine {
 public:
  explicit gfarm_engine(const store_plugin_host &host) : host_{host} {}

  const char *scheme() const noexcept override {
    return "gfarm";
  }
  status open(const std::string &url, store_open_flags flags, store_file &file,
              store_stat &stat) override;
  status close(store_file file, store_stat &stat) override;
  status read(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
              uint64_t &size) override;
  status write(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
               uint64_t &size) override;
  status stat(store_file file, store_stat &stat) override;
  status truncate(store_file file, uint64_t size) override;
  status sync(store_file file) override;
  status unlink(const std::string &url) override;
  status list(const std::string &prefix, std::vector<std::string> &names) override;
  int descriptor(store_file file) const override;

 private:
  status connect(const std::string &url);
  status initialize();

  const store_plugin_host host_;
  handle_table<gfarm_file> files_;
};

}  // namespace tanada::port
