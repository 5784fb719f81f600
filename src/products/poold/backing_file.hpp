// products/poold/backing_file.hpp: the file that a pool's memory is mapped from.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/base/mutex.hpp"
#include "core/base/result.hpp"
#include "seams/os/guarded_memory.hpp"

namespace tanada::poold {

// The file that the pool's memory is mapped from, and the record of its lost ranges. Another
// process may truncate a mapped file, and no lock of an ordinary file prevents that. A truncated
// range is lost for good: if the file grows again, it reads as zeros. Accessing a lost range does
// not end the process (seams/os/guarded_memory.hpp). Thread-safe.
class backing_file {
 public:
  // Open the file, or create it, and allocate all its blocks. `size` (bytes) is a multiple of the
  // page size. busy: another daemon has locked it. Other errors, with a message: no_space,
  // no_memory, io, or the error of the system's open().
  static result<std::unique_ptr<backing_file>> open(const std::string &path, uint64_t size);
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

  // io: the range could not be written, or the file was removed from its directory. Syncing a lost
  // range succeeds, so check for losses afterwards.
  status sync(uint64_t offset, uint64_t size);

 private:
  backing_file(std::string path, uint64_t size)
      : path_{std::move(path)}, size_{size}, file_size_{size} {}
  status prepare();
  status lock_file();
  status reserve_addresses();
  void mark_lost(uint64_t begin, uint64_t end) TND_REQUIRES(mutex_);

  std::string const path_;
  uint64_t const size_;
  int file_ = -1;
  std::byte *addr_ = nullptr;
  bool is_device_ = false;  // a block or character device, whose size is fixed
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
