// products/comex/heap/allocator.hpp: allocates pieces of a process's heap.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include "core/base/mutex.hpp"
#include "seams/os/range_allocator.hpp"

namespace tanada::comex::heap {

// Accounts for the memory of a heap: is consulted before the heap grows, and notified when pages
// are discarded.
class memory_account {
 public:
  virtual ~memory_account() = default;
  // Before the heap grows by `size` bytes. May wait for other processes. false: there will never be
  // enough memory, with a message.
  virtual bool reserve_memory(size_t size) = 0;
  virtual void return_memory(size_t size) noexcept = 0;  // the heap has shrunk by `size` bytes
  // before a piece is released, whose pages may then be returned to the system
  virtual void before_release() noexcept {}
  // Before the pages of [offset, offset + size) are returned to the system.
  virtual void before_discard(size_t, size_t) noexcept {}
  // The pages of [offset, offset + size) are zeros again and use no memory; their content need not
  // be kept.
  virtual void pages_discarded(size_t offset, size_t size) noexcept = 0;
};

// Thread safety: any thread.
class allocator {
 public:
  static constexpr size_t granule = 64;  // bytes: pieces begin and end at multiples of it
  static_assert((granule & (granule - 1)) == 0);

  // `memory` is shared, page-aligned and all zeros at first; it outlives the allocator.
  explicit allocator(std::span<std::byte> memory)
      : memory_{memory}, ledger_{memory.size(), granule} {}

  // Null: no free range is large enough, `size` is 0, or the account refuses it. `alignment` is a
  // power of two, at most that of large pages.
  void *allocate(size_t size, size_t alignment = granule);
  void clear(void *piece, size_t size);  // Fills with zeros; whole pages use no memory afterwards.
  bool release(void *piece);  // Returns pages of large pieces to the system. false: it is no piece.
  bool resize(void *piece,
              // Resizes in place. false, without any effect: not enough free space after it, or no
              // piece.
              size_t size);
  size_t size_of(const void *piece) const;  // bytes; 0: no piece begins there
  bool has(const void *addr) const noexcept {
    return offset_of(addr) < memory_.size();
  }

  size_t size() const noexcept {
    return memory_.size();
  }
  size_t free_size() const;  // bytes
  std::span<std::byte> memory() const noexcept {
    return memory_;
  }

  // Null removes it. Other threads may still use the old account, so it must live as long as this.
  void set_account(memory_account *account) noexcept {
    account_ = account;
  }

  // Around fork(): excludes all other threads.
  void lock() TND_ACQUIRE(mutex_) {
    mutex_.lock();
  }
  void unlock() TND_RELEASE(mutex_) {
    mutex_.unlock();
  }

 private:
  size_t offset_of(const void *addr) const noexcept {
    return reinterpret_cast<uintptr_t>(addr) - reinterpret_cast<uintptr_t>(memory_.data());
  }
  bool discard_pages(size_t offset, size_t size) noexcept;

  std::span<std::byte> memory_;
  std::atomic<memory_account *> account_{nullptr};
  mutable mutex mutex_;
  seams::range_allocator ledger_ TND_GUARDED_BY(mutex_);
};

}  // namespace tanada::comex::heap
