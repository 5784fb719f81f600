// products/comex/heap/pieces.hpp: the memory that a process gives and allocates of its heap, by
// pieces.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <span>

#include "seams/os/ledger.hpp"

namespace tanada::comex::heap {

// Who is asked before a heap grows, and told what it has no use for any more.
class keeper {
 public:
  virtual ~keeper() = default;
  // May wait for other processes. false: there will never be room, with a message.
  virtual bool make_room(size_t size) = 0;
  virtual void room_back(size_t size) noexcept = 0;  // it shrinks by so much
  virtual void before_release() noexcept {}  // of a piece, whose pages may then be given back
  // The pages of [offset, offset + size) are zeros again, and take no memory: nothing of them is to
  // be kept.
  virtual void forget(size_t offset, size_t size) noexcept = 0;
};

// Thread safety: any thread.
class pieces {
 public:
  static constexpr size_t granule = 64;  // bytes: pieces begin and end at multiples of it

  // `memory` is shared, begins with a page, and is zeros at first; it outlives this.
  explicit pieces(std::span<std::byte> memory) : memory_{memory}, books_{memory.size(), granule} {}

  // Null: there is no such piece, no bytes were asked for, or the keeper has no room. alignment: a
  // power of two, up to large pages.
  void *allocate(size_t size, size_t alignment = granule);
  void clear(void *piece, size_t size);  // zeros; whole pages of them take no memory
  bool release(void *piece);             // false: it is none. Large ones go back to the system.
  bool resize(void *piece,
              size_t size);  // where it is; false, and nothing done: no room, or no piece
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

  // From now on, or null: nobody; other threads may be in it still, so it lives as long as this.
  void keeper_set(keeper *who) noexcept {
    keeper_ = who;
  }

  // Around fork(): no other thread is inside.
  void lock() {
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
  }

 private:
  size_t offset_of(const void *addr) const noexcept {
    return reinterpret_cast<uintptr_t>(addr) - reinterpret_cast<uintptr_t>(memory_.data());
  }
  bool give_back(size_t offset, size_t size) noexcept;

  std::span<std::byte> memory_;
  std::atomic<keeper *> keeper_{nullptr};
  mutable std::mutex mutex_;
  port::ledger books_;
};

}  // namespace tanada::comex::heap
