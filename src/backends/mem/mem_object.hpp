// backends/mem/mem_object.hpp: a named buffer of mem://, and the names of the process.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.hpp"
#include "seams/store/store.hpp"
#include "seams/store/striped_mutex.hpp"

namespace tanada::backends {

// The limit on the bytes of all objects of the process together.
class mem_budget {
 public:
  void limit_set(uint64_t size) noexcept {
    size_max_.store(size, std::memory_order_relaxed);
  }
  bool acquire(uint64_t size) noexcept;
  void release(uint64_t size) noexcept {
    uint64_t const used = used_.fetch_sub(size, std::memory_order_relaxed);
    TND_ASSERT(used >= size);
  }

 private:
  std::atomic<uint64_t> size_max_{0}, used_{0};
};

// Bytes in chunks, so that growth adds chunks without moving any. A chunk that was never written is
// not allocated and reads as zeros.
//
// Locking: mutex_ guards the table of chunks and the size. It is held shared while bytes inside
// existing chunks are copied in either direction. Two operations on the same bytes are unordered,
// as the store's contract states.
class mem_object {
 public:
  static constexpr uint64_t chunk_size = 256 * 1024;
  static constexpr uint64_t size_max = uint64_t{1} << 40;
  static_assert(size_max % chunk_size == 0);

  mem_object(mem_budget &budget, uint64_t id) : budget_{budget}, version_{id << 40} {}
  ~mem_object();
  mem_object(const mem_object &) = delete;
  mem_object &operator=(const mem_object &) = delete;

  uint64_t read(uint64_t offset, std::span<const seams::store_buffer> buffers) const;
  // no_space, too_big: nothing was written.
  status write(uint64_t offset, std::span<const seams::store_buffer> buffers, uint64_t size);
  status truncate(uint64_t size);
  seams::store_stat stat() const;

 private:
  struct chunk_free {
    void operator()(std::byte *chunk) const noexcept;
  };
  using chunk = std::unique_ptr<std::byte[], chunk_free>;

  bool is_allocated(uint64_t offset, uint64_t size) const noexcept;
  status extend(uint64_t offset, uint64_t size);
  void copy_in(uint64_t offset, std::span<const seams::store_buffer> buffers) noexcept;
  void drop_chunks(size_t first);

  mem_budget &budget_;
  mutable seams::striped_mutex mutex_;
  std::vector<chunk> chunks_;
  uint64_t size_ = 0;
  // Increased after the bytes have changed. A reader that saw new bytes under the old version finds
  // the version changed. A reader that sees the new version reads the new bytes.
  std::atomic<uint64_t> version_;
};

// Names of the process. Thread-safe.
class mem_names {
 public:
  static mem_names &process_instance();

  mem_budget &budget() noexcept {
    return budget_;
  }
  result<std::shared_ptr<mem_object>> open(const std::string &url, seams::store_open_flags flags);
  status unlink(const std::string &url);
  std::vector<std::string> list(std::string_view prefix) const;

 private:
  mem_budget budget_;
  mutable mutex mutex_;
  std::map<std::string, std::shared_ptr<mem_object>, std::less<>> objects_ TND_GUARDED_BY(mutex_);
  uint64_t next_id_ TND_GUARDED_BY(mutex_) = 1;
};

}  // namespace tanada::backends
