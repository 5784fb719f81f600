// backends/mem/mem_object.hpp: one named buffer of mem://, and the names of the process.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.hpp"
#include "seams/store/store.hpp"
#include "seams/store/striped_mutex.hpp"

namespace tanada::port {

// What all objects of the process may hold together.
class mem_budget {
 public:
  void limit_set(uint64_t size) noexcept {
    size_max_.store(size, std::memory_order_relaxed);
  }
  bool acquire(uint64_t size) noexcept;
  void release(uint64_t size) noexcept {
    used_.fetch_sub(size, std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> size_max_{0}, used_{0};
};

// Bytes in chunks, so that growth adds chunks and moves none; a chunk never written is not there
// and reads as zeros.
//
// Locking: mutex_ guards the table of chunks and the size. It is held shared while bytes inside
// existing chunks are copied, in either direction: two operations on the same bytes are unordered,
// as the store's contract says.
class mem_object {
 public:
  static constexpr uint64_t chunk_size = 256 * 1024;
  static constexpr uint64_t size_max = uint64_t{1} << 40;

  mem_object(mem_budget &budget, uint64_t id) : budget_{budget}, version_{id << 40} {}
  ~mem_object();
  mem_object(const mem_object &) = delete;
  mem_object &operator=(const mem_object &) = delete;

  uint64_t read(uint64_t offset, std::span<const store_buffer> buffers) const;
  // no_space or too_big: nothing was written.
  status write(uint64_t offset, std::span<const store_buffer> buffers, uint64_t size);
  status truncate(uint64_t size);
  store_stat stat() const;

 private:
  struct chunk_free {
    void operator()(std::byte *chunk) const noexcept;
  };
  using chunk = std::unique_ptr<std::byte[], chunk_free>;

  bool covered(uint64_t offset, uint64_t size) const noexcept;
  status extend(uint64_t offset, uint64_t size);
  void copy_in(uint64_t offset, std::span<const store_buffer> buffers) noexcept;
  void drop_chunks(size_t first);

  mem_budget &budget_;
  mutable striped_mutex mutex_;
  std::vector<chunk> chunks_;
  uint64_t size_ = 0;
  // Moves on after the bytes have changed: a reader that saw the new bytes under the old version
  // finds the version changed, and one that sees the new version reads the new bytes.
  std::atomic<uint64_t> version_;
};

// Names of the process. Thread-safe.
class mem_names {
 public:
  static mem_names &of_process();

  mem_budget &budget() noexcept {
    return budget_;
  }
  result<std::shared_ptr<mem_object>> open(const std::string &url, store_open_flags flags);
  status unlink(const std::string &url);
  std::vector<std::string> list(std::string_view prefix) const;

 private:
  mem_budget budget_;
  mutable mutex mutex_;
  std::map<std::string, std::shared_ptr<mem_object>, std::less<>> objects_;
  uint64_t next_id_ = 1;
};

}  // namespace tanada::port
