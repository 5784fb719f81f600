// products/poold/backing_file.hpp: the file that the pool's memory is mapped from, and what
// somebody took away of it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/base/result.hpp"
#include "seams/os/guarded_memory.hpp"

namespace tanada::poold {

// Others may cut a file while it is mapped; no lock of an ordinary file keeps them from it. What
// was cut off is lost for good, also when the file grows again: what comes then is zeros. Touching
// it ends nobody (seams/os/guarded_memory.hpp). Thread-safe.
class backing_file {
 public:
  // Opens or makes it, with all its blocks. busy: another daemon has it. no_space, no_memory or
  // what the system says, with a message. `size` (bytes) is a multiple of the page size.
  static result<std::unique_ptr<backing_file>> open(const std::string &path, uint64_t size);
  ~backing_file();

  // Where `size` bytes from `offset` on are mapped. `populate`: all pages are brought in.
  result<std::byte *> map(uint64_t offset, uint64_t size, bool populate);

  // Look whether all is there still: one system call. True: more is lost than at the last look.
  bool look();

  // Whether any of this range was lost at the last look.
  bool is_lost(uint64_t offset, uint64_t size) const;

  // The parts of a range that are not lost, in order.
  void visit_whole(uint64_t offset, uint64_t size,
                   const std::function<void(uint64_t offset, uint64_t size)> &take) const;

  uint64_t lost_size() const noexcept {
    return lost_size_.load(std::memory_order_relaxed);
  }

  // io: it could not be written, or nobody will find the file again since it was removed. What is
  // lost syncs well: look.
  status sync(uint64_t offset, uint64_t size);

 private:
  backing_file(std::string path, uint64_t size) : path_{std::move(path)}, size_{size} {}
  status prepare();
  void lose(uint64_t begin, uint64_t end);

  std::string const path_;
  uint64_t const size_;
  int file_ = -1;
  std::byte *addr_ = nullptr;
  bool is_device_ = false;  // it has the size it has
  std::unique_ptr<port::guarded_memory> guard_;
  std::atomic<uint64_t> lost_size_{0};
  std::atomic<bool> is_removed_{false};
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> lost_;  // begin: end, of the file; neighbours are merged
  uint64_t file_size_ = 0;             // the smallest it was seen to have
  size_t lost_page_count_ = 0;         // of the guard, at the last look
};

}  // namespace tanada::poold
