// products/poold/backing_file.hpp: the file that a pool's memory is mapped from.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "core/base/mutex.hpp"
#include "core/base/result.hpp"
#include "seams/os/guarded_memory.hpp"
#include "seams/os/persistent_memory.hpp"

namespace tanada::poold {

// The file that the pool's memory is mapped from, and the record of its lost ranges. Another
// process may truncate a mapped file, and no lock of an ordinary file prevents that. A truncated
// range is lost for good: if the file grows again, it reads as zeros. Accessing a lost range does
// not end the process (seams/os/guarded_memory.hpp). Thread-safe.
//
// A file in persistent memory is mapped as a whole, and its bytes become durable by flushes of
// cache lines. All others are synced by msync().
//
// Locks: a daemon has an exclusive flock() of its file. Of a device of persistent memory it has an
// exclusive record lock instead, and each descriptor that a client gets has a shared flock(). The
// memory outlives the daemon. So a client of a previous daemon, which may be in the middle of a
// copy, is found by its lock.
class backing_file {
 public:
  // Open the file, or create it, and allocate all its blocks. `size` (bytes) is a multiple of the
  // page size. Null `persistent`: the file is not mapped as persistent memory. busy: another daemon
  // has locked it. not_supported: a character device, which must be persistent memory, is not.
  // Other errors, with a message: no_space, no_memory, io, or the error of the system's open().
  static result<std::unique_ptr<backing_file>> open(const std::string &path,
                                                    uint64_t size,
                                                    seams::persistent_memory *persistent);
  ~backing_file();

  // Map `size` bytes from `offset` on and return their address. `populate`: fault in all pages.
  result<std::byte *> map(uint64_t offset, uint64_t size, bool populate);

  // Check for lost bytes, with one system call. True: more is lost than at the last check.
  bool check_losses();

  // Whether the last check found any of this range lost.
  bool is_lost(uint64_t offset, uint64_t size) const;

  // Call `visitor` with the parts of a range that are not lost, in order.
  void visit_intact(uint64_t offset,
                    uint64_t size,
                    const std::function<void(uint64_t offset, uint64_t size)> &visitor) const;

  uint64_t lost_size() const noexcept {
    return lost_size_.load(std::memory_order_relaxed);
  }

  // The file is in persistent memory, so that flushing small ranges costs less than syncing what
  // lies between them.
  bool is_persistent() const noexcept {
    return mapping_ != nullptr;
  }

  // Clients may map it: no process can truncate it, and parts of `part_size` can be mapped.
  bool is_exportable(uint64_t part_size) const noexcept {
    return is_dax_device_ && mapping_ != nullptr && part_size % mapping_->granule() == 0;
  }

  // A descriptor for a client, which the caller closes. Its lock is held until the client has
  // closed and unmapped all of it. io, with a message: it cannot be opened or locked.
  result<int> export_descriptor(bool writable);

  // Clients of a previous daemon have the device mapped, and may still write to it.
  bool has_old_clients();

  // Make ranges durable. io: a range could not be written, or the file was removed from its
  // directory. Syncing a lost range succeeds, so check for losses afterwards.
  struct range {
    uint64_t offset, size;  // bytes
  };
  status sync(std::span<const range> ranges);

 private:
  backing_file(std::string path, uint64_t size)
      : path_{std::move(path)}, size_{size}, file_size_{size} {}
  status prepare(seams::persistent_memory *persistent);
  status open_file(seams::persistent_memory *persistent);
  status lock_file();
  status map_persistent(seams::persistent_memory &memory);
  status clear_new_blocks(uint64_t offset, uint64_t end);
  status reserve_addresses();
  status guard_addresses();
  status sync_by_system(const range &synced);
  void mark_lost(uint64_t begin, uint64_t end) TND_REQUIRES(mutex_);

  std::string const path_;
  uint64_t const size_;
  int file_ = -1;
  uint64_t old_size_ = 0;  // bytes of the file before it was opened
  std::byte *addr_ = nullptr;
  std::unique_ptr<seams::persistent_mapping> mapping_;  // null: not in persistent memory
  bool is_device_ = false;                              // of any kind: its size is fixed
  bool is_dax_device_ = false;  // of persistent memory: the system cannot sync it
  std::unique_ptr<seams::guarded_memory> guard_;
  std::atomic<uint64_t> lost_size_{0};
  std::atomic<bool> is_removed_{false};
  mutable mutex mutex_;
  // Begin -> end in the file; adjacent ranges are merged.
  std::map<uint64_t, uint64_t> lost_ TND_GUARDED_BY(mutex_);
  uint64_t file_size_ TND_GUARDED_BY(mutex_);          // the smallest size observed
  size_t lost_page_count_ TND_GUARDED_BY(mutex_) = 0;  // reported by the guard at the last check
};

}  // namespace tanada::poold
