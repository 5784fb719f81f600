// seams/store/store.hpp: the seam to named bytes behind a URL. Implementations: file (io_uring),
// mem, gfarm (a plugin) and sim::store. One contract suite (tests/contract/store_contract.hpp) runs
// on all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "seams/gpu/direct_files.hpp"

namespace tanada::port {

// An open file of a store, made by `open` and good on every queue of the same store until `close`.
using store_file = uint64_t;
inline constexpr store_file no_store_file = ~uint64_t{0};

struct store_open_flags {
  // create and truncate ask for write, exclusive for create. A file opened to write can be read as
  // well where the store allows it: a cache above must read the rest of a page.
  bool read = false, write = false, create = false, exclusive = false, truncate = false;
  // Reads and writes that are aligned to 4096 bytes in offset, sizes and addresses pass caches of
  // the system by, where the store can.
  bool direct = false;
  bool owner_only =
      false;  // what create makes is for its owner alone, where the store knows owners
};

struct store_stat {
  uint64_t size = 0;  // bytes
  // Changes whenever the bytes may have changed (a hash of inode, generation, times, as the store
  // has them); also names the file's identity: a file deleted and created again has another
  // version.
  uint64_t version = 0;
  // False when a change made right now could go unseen in `version` (a time stamp as fresh as the
  // clock's grain): such a version must not be used to keep cached pages.
  bool version_settled = false;
};

struct store_buffer {
  std::byte *addr;
  size_t size;  // bytes
};

// sync_names: files that were created or unlinked in the folder that holds `url` are so after a
// crash, too. sync does this for bytes and sizes. Stores whose servers see to it say ok.
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

// One operation. Which fields count depends on `kind`; the rest is ignored.
struct store_op {
  store_op_kind kind = store_op_kind::read;
  uint64_t op_id = 0;                   // handed back in the completion; need not be unique
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
  // Bytes moved; read, write. Short only at end of file or on error. open: a store may put the
  // whole of a file that is no longer than the buffers into them, where that takes no waiting. The
  // size is stat.size then; otherwise it is 0, and the buffers hold anything.
  uint64_t size = 0;
  store_file file = no_store_file;  // open
  store_stat stat{};                // open, stat, close (as published, when the store knows it)
  // list: URLs that begin with the prefix, sorted, one level: what lies below a further '/' is
  // folded into one name that ends in '/'. None is ok, also where a folder in the prefix does not
  // exist.
  std::vector<std::string> names;
};

// Where operations are posted and completions reaped. Used by one thread at a time.
//
// A post that returns ok yields exactly one completion, from a later poll; any other status yields
// none. post never blocks on the store and never completes inside the call. Operations are
// unordered with each other: whoever needs an order waits for the completion. A read past the end
// of the file is ok and short; writes are whole or fail with the count that reached the store. When
// the deadline passes the queue tries to cancel, but the completion (timed_out) comes only once no
// byte of `buffers` will be touched again, however late that is; the caller keeps them alive until
// then.
class store_queue {
 public:
  // Destroying a queue waits for, or abandons with their memory leaked, the operations still out;
  // the caller reaps first.
  virtual ~store_queue() = default;

  // ok; again when the queue is full (poll, then repeat); invalid for a malformed op.
  virtual status post(store_op op) = 0;

  // Reap up to completions.size() completions without blocking. Returns how many.
  virtual size_t poll(std::span<store_completion> completions) = 0;

  // Perform the operation inside the call if that takes no waiting: true, and `completion`, which
  // is empty before, is what a poll would have given. False: nothing was done; post it. For whoever
  // would poll for the completion at once. The deadline is for those who wait: it is not looked at.
  virtual bool try_perform(const store_op &op, store_completion &completion) {
    (void)op;
    (void)completion;
    return false;
  }

  // Operations posted and not reaped yet.
  virtual size_t pending_count() const noexcept = 0;
};

// Device memory where a store may place what it reads: the buffers of a read operation then lie in
// it as a whole.
struct device_window {
  std::byte *addr = nullptr;
  size_t size = 0;                // bytes
  bool is_host_memory = false;    // as on the host executor
  direct_files *files = nullptr;  // for stores whose files have descriptors; not null

  bool holds(const store_buffer &buffer) const {
    return buffer.addr >= addr && buffer.size <= size &&
           size_t(buffer.addr - addr) <= size - buffer.size;
  }
};

// All bytes of an open file in memory that its store has mapped, to be read. They cannot be cut,
// and stay as they are as long as somebody has `hold`, be the file closed meanwhile. Who lets go
// last may wait.
struct store_memory {
  std::span<const std::byte> bytes = {};  // empty: there are none
  std::shared_ptr<const void> hold = {};
};

// What else can be done with an open file than to read it into host memory.
struct file_access {
  direct_offer direct;         // reads into the device window
  store_memory memory = {};    // of the store's own
  int memory_descriptor = -1;  // of a file whose pages are memory of this machine, good until the
                               // file is closed; -1: none
  int cached_descriptor =
      -1;  // of a file on this machine that its system keeps in the page cache, as long; -1: none
  bool sealed = false;      // it cannot be cut
  std::string reason = {};  // why there is neither, one line; empty: that is not to be expected
};

// The engine behind one URL scheme. Thread-safe.
class store {
 public:
  virtual ~store() = default;
  virtual std::string_view scheme() const noexcept = 0;  // "file", "mem", "gfarm"
  virtual result<std::unique_ptr<store_queue>> queue_create(uint32_t depth) = 0;

  // At most once, before the first queue: a window that outlives the store's last operation.
  // `compatible_too`: a processor may copy on the way. It may take long.
  virtual void attach(const device_window &window, bool compatible_too) {
    bool const reached = window.is_host_memory && compatible_too;
    offer_ = {reached ? direct_kind::compatible : direct_kind::none,
              window.is_host_memory ? "the host executor: a processor copies"
                                    : "this store brings bytes to host memory"};
  }

  // Does not wait.
  virtual file_access access(store_file) const {
    return {.direct = offer_};
  }

 protected:
  direct_offer offer_{direct_kind::none, "direct reads are turned off"};
};

}  // namespace tanada::port
