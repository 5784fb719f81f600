// products/comex/accumulate.hpp: the arithmetic of accumulates, and the locks that make them
// atomic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "onesided/job/job.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::comex {

// The element types of accumulates, x += scale * y. A complex number is two elements, real part
// first.
enum class element : uint8_t { i32, i64, f32, f64, c64, c128 };

size_t element_size(element type) noexcept;  // bytes

// Computes target[i] += *scale * source[i]. `size` is in bytes and covers whole elements. No
// alignment is required; the ranges must not overlap.
void add_scaled(element type,
                const void *scale,
                std::byte *target,
                const std::byte *source,
                size_t size) noexcept;

// Like add_scaled(), but each naturally aligned integer is added atomically, so that atomic
// operations on it stay correct.
void add_atomically(element type,
                    const void *scale,
                    std::byte *target,
                    const std::byte *source,
                    size_t size) noexcept;

// Spin locks of a process's heap, in its control memory. The processors of a node perform all
// accumulates on that heap, and add at full speed under a lock. A lock covers pieces of the heap;
// one holder at a time adds there. A holder never waits for anything but memory.
class heap_locks {
 public:
  static constexpr size_t count = 64, piece_size = size_t{32} << 10;  // bytes of the heap
  static_assert(piece_size % 16 == 0);                                // of whole elements

  struct alignas(64) lock_word {
    uint32_t is_held;
  };
  static_assert(sizeof(lock_word) == 64);

  // Holds at most one lock at a time.
  class guard {
   public:
    explicit guard(const onesided::job &job) : job_{job} {}
    ~guard() {
      unlock();
    }
    guard(const guard &) = delete;
    guard &operator=(const guard &) = delete;

    // Locks the piece at `offset` of this heap, after releasing any other lock. peer_lost: a
    // process died meanwhile, and may have held the lock.
    status lock(lock_word *locks, size_t offset) noexcept {
      lock_word *const target_lock = locks + offset / piece_size % count;
      if (target_lock == held_)
        return status::ok;
      unlock();
      return acquire(target_lock);
    }
    void unlock() noexcept {
      if (held_ != nullptr)
        __atomic_store_n(&held_->is_held, 0, __ATOMIC_RELEASE);
      held_ = nullptr;
    }

   private:
    status acquire(lock_word *target_lock) noexcept;

    const onesided::job &job_;
    lock_word *held_ = nullptr;
  };
};

// The heap that accumulates are applied to.
struct heap_view {
  std::byte *begin;
  heap_locks::lock_word *locks;
  // Naturally aligned integers are added atomically, too, because some updates take no locks.
  bool has_atomics;
};

// The operands of an accumulate whose blocks are whole elements.
struct addend {
  element type;
  const void *scale;
};

// Adds to the bytes at `offset` of the heap. peer_lost, with a message: see `guard::lock`.
status add_under_locks(heap_locks::guard &guard,
                       const heap_view &heap,
                       size_t offset,
                       const addend &operands,
                       const std::byte *source,
                       size_t size);

}  // namespace tanada::comex
