// seams/store/blocking_store.hpp: a store with queues over an engine whose calls block.
#pragma once

#include <memory>
#include <optional>

#include "seams/store/store.hpp"

namespace tanada::seams {

// An engine whose calls return when they are done. Thread-safe: the workers of a store call it at
// the same time, also for the same file. Outputs are written only on success, except `size`, which
// also counts the bytes that reached the store before an error. Plugins implement it, so it uses no
// state of the core.
class blocking_engine {
 public:
  virtual ~blocking_engine() = default;
  virtual const char *scheme() const noexcept = 0;
  virtual status open(const std::string &url,
                      store_open_flags flags,
                      store_file &file,
                      store_stat &stat) = 0;
  virtual status close(store_file file, store_stat &stat) = 0;
  virtual status read(store_file file,
                      uint64_t offset,
                      std::span<const store_buffer> buffers,
                      uint64_t &size) = 0;
  virtual status write(store_file file,
                       uint64_t offset,
                       std::span<const store_buffer> buffers,
                       uint64_t &size) = 0;
  virtual status stat(store_file file, store_stat &stat) = 0;
  virtual status truncate(store_file file, uint64_t size) = 0;
  virtual status sync(store_file file) = 0;
  virtual status unlink(const std::string &url) = 0;
  virtual status list(const std::string &prefix, std::vector<std::string> &names) = 0;

  // A descriptor of a local file that has an open file's bytes, while that is only read. It is
  // valid until the file is closed. -1: not available. Does not wait.
  virtual int descriptor(store_file) const {
    return -1;
  }

  // An open file's bytes in memory of the engine. If they are not available, `reason` may have the
  // cause. Called once, after an open only for reading. It may wait.
  virtual store_memory memory(store_file, std::string &reason) {
    (void)reason;
    return {};
  }

  // See store::attach(). Called before the first open, if at all.
  virtual void attach(const device_window &window, bool compatible_too) {
    (void)window;
    (void)compatible_too;
  }

  // How an open file is read into the window. None: as from any store, whose bytes a processor
  // copies. Does not wait.
  virtual std::optional<direct_offer> direct(store_file) const {
    return {};
  }

  // See store_op_kind::sync_names.
  virtual status sync_names(const std::string &) {
    return status::ok;
  }
};

struct blocking_limits {
  uint32_t worker_count = 8;       // started on demand
  uint32_t worker_count_max = 64;  // started when the others have been stuck for stall_ns
  uint32_t workers_per_file = 4;   // busy with one file or URL at a time
  uint64_t stall_ns = 20'000'000;
  uint64_t abandon_ns = 2'000'000'000;  // how long a destructor waits for stuck workers
};

// Operations run on worker threads, so post never blocks. One that no worker has begun by its
// deadline completes with timed_out. A running one completes with the engine's status when the
// engine returns. Destroying a queue or the store drops operations that have not begun, and waits
// for the others for at most abandon_ns. It then abandons the stuck threads and what they use, with
// one line in the log.
std::unique_ptr<store> blocking_store_create(std::shared_ptr<blocking_engine> engine,
                                             blocking_limits limits = {});

}  // namespace tanada::seams
