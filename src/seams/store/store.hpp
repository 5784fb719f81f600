// seams/store/store.hpp: the seam to named bytes behind a URL. Implementations: file (io_uring),
// mem, gfarm (a plugin) and sim::store. One contract suite (tests/contract/store_contract.hpp) runs
// on all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "seams/gpu/direct_files.hpp"

namespace tanada::seams {

// An open file of a store, valid on every queue of the same store from `open` to `close`.
using store_file = uint64_t;
inline constexpr store_file no_store_file = ~uint64_t{0};

struct store_open_flags {
  // create and truncate require write; exclusive requires create. A file opened for writing can
  // also be read where the store allows it: a cache above must read the rest of a page.
  bool read = false, write = false, create = false, exclusive = false, truncate = false;
  // Reads and writes whose offset, sizes and addresses are aligned to 4096 bytes bypass the
  // system's caches, where the store can.
  bool direct = false;
  // Only the owner may use files that `create` makes, where the store has owners.
  bool owner_only = false;
};

struct store_stat {
  uint64_t size = 0;  // bytes
  // Changes whenever the bytes may have changed: a hash of inode, generation and times, as far as
  // the store has them. It also identifies the file: a file deleted and created again has another
  // version.
  uint64_t version = 0;
  // False when a change made right now might not change `version`, as a time stamp is as recent as
  // the clock's resolution. Such a version must not be used to keep cached pages.
  bool is_version_stable = false;
};

struct store_buffer {
  std::byte *addr;
  size_t size;  // bytes
};

// Returns the buffers from `next` on that are one range of memory, and sets `next` to the first one
// behind them.
inline store_buffer take_adjacent(std::span<const store_buffer> buffers, size_t &next) {
  store_buffer run = buffers[next++];
  for (; next < buffers.size() && buffers[next].addr == run.addr + run.size; next++)
    run.size += buffers[next].size;
  return run;
}

// sync_names: files created or unlinked in the folder of `url` stay so after a crash. sync does
// this for bytes and sizes. Stores whose servers ensure it return ok.
enum class store_op_kind : uint8_t {
  open,
  close,
  read,
  write,
  stat,
  truncate,
  sync,
  unlink,
  list,
  sync_names
};
inline constexpr size_t store_op_kind_count = 10;
static_assert(store_op_kind_count == size_t(store_op_kind::sync_names) + 1);

// One operation. `kind` determines which fields count; the others are ignored.
struct store_op {
  store_op_kind kind = store_op_kind::read;
  uint64_t op_id = 0;                   // returned in the completion; need not be unique
  uint64_t deadline_ns = ~uint64_t{0};  // absolute, monotonic_clock
  std::string url;                      // open, unlink, sync_names; list: a prefix
  store_open_flags open_flags{};        // open
  store_file file = no_store_file;      // close, read, write, stat, truncate, sync
  uint64_t offset = 0;                  // bytes; read, write
  // read: filled in order; write: taken in order; open: see store_completion::size
  std::vector<store_buffer> buffers;
  uint64_t size = 0;  // bytes; truncate
};

struct store_completion {
  uint64_t op_id = 0;
  status code = status::ok;
  // read, write: bytes moved, short only at the end of the file or on error. open: a store may read
  // all of a file that is no longer than the buffers into them, if that takes no waiting. This is
  // then stat.size; otherwise it is 0, and the buffers are undefined.
  uint64_t size = 0;
  store_file file = no_store_file;  // open
  store_stat stat{};                // open, stat, close (as published, when the store knows it)
  // list: URLs that begin with the prefix, sorted, one level. Names below a further '/' are folded
  // into one that ends in '/'. An empty list is ok, also where a folder in the prefix does not
  // exist.
  std::vector<std::string> names;
};

// A read of one range, see store_queue::try_read_each().
struct store_read {
  uint64_t offset;  // bytes
  store_buffer buffer;
  uint64_t size = 0;  // bytes read, short only at the end of the file or on error
  status code = status::ok;
  bool is_done = false;
};

// Where operations are posted and completions reaped. Used by one thread at a time.
//
// A post that returns ok yields exactly one completion, from a later poll; any other status yields
// none. post never blocks on the store and never completes inside the call. Operations are
// unordered: a caller that needs an order waits for the completion. A read past the end of the file
// is ok and short. Writes are whole, or fail with the count that reached the store. When the
// deadline passes, the queue tries to cancel. The completion (timed_out) comes only once no byte of
// `buffers` will be touched again, however late that is. The caller keeps them alive until then.
class store_queue {
 public:
  // Destroying a queue waits for the outstanding operations, or abandons them and leaks their
  // memory. The caller reaps first.
  virtual ~store_queue() = default;

  // ok. again: the queue is full (poll, then repeat). invalid: a malformed op.
  virtual status post(store_op op) = 0;

  // Reaps up to completions.size() completions without blocking. Returns how many.
  virtual size_t poll(std::span<store_completion> completions) = 0;

  // Performs the operation inside the call if that takes no waiting. True: `completion`, which is
  // empty before, has what a poll would have returned. False: nothing was done; post the operation.
  // For callers that would poll for the completion at once. The deadline is ignored, as nothing
  // waits.
  virtual bool try_perform(const store_op &op, store_completion &completion) {
    (void)op;
    (void)completion;
    return false;
  }

  // As try_perform() for many reads of one file. Those that would wait stay undone.
  virtual void try_read_each(store_file file, std::span<store_read> reads) {
    store_op op;
    op.file = file;
    op.buffers.resize(1);
    for (store_read &read : reads) {
      op.offset = read.offset;
      op.buffers[0] = read.buffer;
      store_completion result;
      read.is_done = try_perform(op, result);
      read.size = result.size;
      read.code = result.code;
    }
  }

  // `listener` is called, from any thread, when an operation that was posted since has completed
  // and waits for poll(). It must neither block nor call the queue. Set it before the first post.
  // The queue's deadlines still need a poll now and then.
  virtual void set_listener(std::function<void()> listener) {
    (void)listener;
  }
  // Whether the listener will be called for every operation that is pending, so that the caller may
  // sleep instead of polling.
  virtual bool is_listened() const noexcept {
    return false;
  }

  // Operations posted and not reaped yet.
  virtual size_t pending_count() const noexcept = 0;
};

// Device memory into which a store may read. The buffers of a read operation then lie entirely in
// it.
struct device_window {
  std::byte *addr = nullptr;
  size_t size = 0;                // bytes
  bool is_host_memory = false;    // as on the host executor
  direct_files *files = nullptr;  // for stores whose files have descriptors; not null

  bool contains(const store_buffer &buffer) const {
    return buffer.addr >= addr && buffer.size <= size &&
           size_t(buffer.addr - addr) <= size - buffer.size;
  }
};

// All bytes of an open file, in memory that its store has mapped for reading. They cannot be
// truncated. They stay unchanged as long as a copy of `owner` exists, even if the file is closed
// meanwhile. Releasing the last copy may wait.
struct store_memory {
  std::span<const std::byte> bytes = {};  // empty: not available
  std::shared_ptr<const void> owner = {};
};

// How an open file can be used, other than by reads into host memory.
struct file_access {
  direct_offer direct;       // reads into the device window
  store_memory memory = {};  // of the store itself
  // Of a file whose pages are memory of this machine. Valid until the file is closed. -1: not
  // available.
  int memory_descriptor = -1;
  // Of a local file that its system keeps in the page cache. Valid as long. -1: not available.
  int cached_descriptor = -1;
  bool is_sealed = false;  // it cannot be truncated
  // The store has most of the file's bytes in memory of this machine, so that a copy of them in the
  // host tier saves nothing.
  bool is_cached = false;
  std::string reason = {};  // why there is neither, one line; empty: neither was to be expected
};

// The engine behind one URL scheme. Thread-safe.
class store {
 public:
  virtual ~store() = default;
  virtual std::string_view scheme() const noexcept = 0;  // "file", "mem", "gfarm"
  virtual result<std::unique_ptr<store_queue>> queue_create(uint32_t depth) = 0;

  // Called at most once, before the first queue. The window outlives the store's last operation.
  // `compatible_too`: a processor may copy on the way. It may take long.
  virtual void attach(const device_window &window, bool compatible_too) {
    bool const is_reachable = window.is_host_memory && compatible_too;
    offer_ = {is_reachable ? direct_kind::compatible : direct_kind::unavailable,
              window.is_host_memory ? "the host executor: a processor copies"
                                    : "this store brings bytes to host memory"};
  }

  // Does not wait.
  virtual file_access access(store_file) const {
    return {.direct = offer_};
  }

 protected:
  direct_offer offer_{direct_kind::unavailable, "direct reads are turned off"};
};

}  // namespace tanada::seams
