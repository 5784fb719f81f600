// seams/store/blocking_store.hpp: a store with queues out of an engine whose calls block.
#pragma once

#include <memory>

#include "seams/store/store.hpp"

namespace tanada::port {

// An engine whose calls return when they are done. Thread-safe: the workers of a store call it at
// the same time, also for the same file. Outputs are written on success only, but `size`, which
// also counts what reached the store before an error. It crosses the border of plugins: no state of
// the core's is reached from it.
class blocking_engine {
 public:
  virtual ~blocking_engine() = default;
  virtual const char *scheme() const noexcept = 0;
  virtual status open(const std::string &url, store_open_flags flags, store_file &file,
                      store_stat &stat) = 0;
  virtual status close(store_file file, store_stat &stat) = 0;
  virtual status read(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
                      uint64_t &size) = 0;
  virtual status write(store_file file, uint64_t offset, std::span<const store_buffer> buffers,
                       uint64_t &size) = 0;
  virtual status stat(store_file file, store_stat &stat) = 0;
  virtual status truncate(store_file file, uint64_t size) = 0;
  virtual status sync(store_file file) = 0;
  virtual status unlink(const std::string &url) = 0;
  virtual status list(const std::string &prefix, std::vector<std::string> &names) = 0;

  // Of a file on this machine that has an open file's bytes, while that is only read; good until it
  // is closed; -1: there is none. Does not wait.
  virtual int descriptor(store_file) const {
    return -1;
  }

  // An open file's bytes in memory of the engine's own; where there are none, `reason` may say why.
  // Called once, after an open to read alone; it may wait.
  virtual store_memory memory(store_file, std::string &reason) {
    (void)reason;
    return {};
  }

  // See store_op_kind::sync_names.
  virtual status sync_names(const std::string &) {
    return status::ok;
  }
};

struct blocking_limits {
  uint32_t worker_count = 8;       // threads started as operations come
  uint32_t worker_count_max = 64;  // and when the others have been stuck for stall_ns
  uint32_t workers_per_file = 4;   // busy with one file (or one URL) at a time
  uint64_t stall_ns = 20'000'000;
  uint64_t abandon_ns = 2'000'000'000;  // how long a destructor waits for stuck workers
};

// Operations run on worker threads, so post never blocks. One that no worker has begun by its
// deadline completes timed_out; one that is running completes, with what the engine says, when the
// engine returns. Destroying a queue or the store drops what has not begun, waits abandon_ns at
// most for the rest and then leaves the stuck threads and what they use behind, with one line in
// the log.
std::unique_ptr<store> blocking_store_create(std::shared_ptr<blocking_engine> engine,
                                             blocking_limits limits = {});

}  // namespace tanada::port
