// backends/gfarm/gfarm_engine.hpp: Gfarm through libgfarm, as an engine of the blocking store.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"
#include "backends/gfarm/gfarm_calls.hpp"
#include "seams/store/handle_table.hpp"
#include "seams/store/store_plugin.hpp"

namespace tanada::backends {

// One handle of libgfarm, closed with this object. libgfarm locks a handle during each call on it.
class gfarm_handle {
 public:
  gfarm_handle() = default;
  gfarm_handle(gfarm_handle &&source) noexcept
      : file_{std::exchange(source.file_, nullptr)} {}  // no call is in flight on it
  gfarm_handle &operator=(gfarm_handle &&source) noexcept;
  ~gfarm_handle() {
    (void)close();
  }

  gfarm_error_t open(const std::string &url, seams::store_open_flags flags);
  gfarm_error_t close();
  bool is_open() const noexcept {
    return file_ != nullptr;
  }

  // Runs call(GFS_File) through gfarm_calls. While no server of the file is reachable, libgfarm
  // retries in each call for its setting no_file_system_node_timeout, 30 s. To keep workers from
  // all waiting there, such an error is then returned immediately for as long as the failed call
  // took.
  template <class Call>
  gfarm_error_t call(Call &&call) const {
    if (auto const error = known_error(); error != GFARM_ERR_NO_ERROR)
      return error;
    TND_ASSERT(is_open());
    auto const begin = std::chrono::steady_clock::now();
    auto const error = gfarm_calls::process_instance().on_file(file_, [&] { return call(file_); });
    if (error != GFARM_ERR_NO_ERROR)
      note_error(error, begin);
    return error;
  }

  // Connects to a replica. If the replica is local, returns a descriptor of its file, which the
  // caller closes. Otherwise returns -1.
  int connect() const noexcept;

  // Makes this handle read from that host.
  gfarm_error_t prefer(const std::string &host);

 private:
  gfarm_error_t known_error() const;
  void note_error(gfarm_error_t error, std::chrono::steady_clock::time_point begin) const;

  GFS_File file_ = nullptr;
  mutable tanada::mutex mutex_;  // guards the next two
  mutable gfarm_error_t error_ = GFARM_ERR_NO_ERROR;
  mutable std::chrono::steady_clock::time_point known_until_{};
};

// An open file. A file opened for reading that has a local replica is read by the core through
// `descriptor`. That is a duplicate, since libgfarm closes its own on failover. libgfarm has one
// transfer in flight on a handle and on a connection to a server. Therefore a remote file with one
// replica, or a file open for writing, has one handle. A file with several replicas has as many
// handles as concurrent readers need, spread over the replicas.
//
// Locking: every user of a handle holds `close_mutex` shared, and close holds it exclusively.
// `primary_mutex` is held by the reader that uses `primary` or `reopened`. `mutex` guards `idle`
// and `next_host`.
struct gfarm_file {
  gfarm_file() = default;
  ~gfarm_file();
  gfarm_file(const gfarm_file &) = delete;
  gfarm_file &operator=(const gfarm_file &) = delete;

  std::string url;
  bool writable = false;
  int descriptor = -1;
  gfarm_handle primary;
  std::vector<std::string>
      hosts;  // of the replicas, if there are several and the file is only read
  shared_mutex close_mutex;
  tanada::mutex primary_mutex;
  std::atomic<bool> primary_failed{false};
  gfarm_handle reopened;  // for a file with one replica, after `primary` failed
  tanada::mutex mutex;
  std::vector<gfarm_handle> idle;
  size_t next_host = 0;
};

// Handles are unbuffered: a buffered one fetches 1 MiB for a random page. Files are created with
// mode 0644. close publishes the size. Errors of libgfarm are returned as their errno.
//
// libgfarm is initialized, and a metadata server connected, by the first operation that needs it
// and not when the engine is created: that may take seconds, and callers that create the store must
// not wait.
class gfarm_engine final : public seams::blocking_engine {
 public:
  explicit gfarm_engine(const seams::store_plugin_host &host) : host_{host} {}

  const char *scheme() const noexcept override {
    return "gfarm";
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
  status unlink(const std::string &url) override;
  status list(const std::string &prefix, std::vector<std::string> &names) override;
  int descriptor(seams::store_file file) const override;

 private:
  status connect(const std::string &url);
  status initialize();

  const seams::store_plugin_host host_;
  seams::handle_table<gfarm_file> files_;
};

}  // namespace tanada::backends
