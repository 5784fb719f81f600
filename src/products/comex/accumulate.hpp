// products/comex/accumulate.hpp: what accumulates add, and who may add at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "onesided/job/job.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::comex {

// Of accumulates: x += scale * y. Complex numbers are two of them, real part first.
enum class element : uint8_t { i32, i64, f32, f64, c64, c128 };

size_t element_size(element of) noexcept;  // bytes

// target[i] += *scale * source[i]. size: bytes, whole elements. No alignment is asked for; the
// ranges do not overlap.
void add_scaled(element of, const void *scale, std::byte *target, const std::byte *source,
                size_t size) noexcept;

// The same, each integer at once for atomic operations on it, where they lie at multiples of their
// size.
void add_at_once(element of, const void *scale, std::byte *target, const std::byte *source,
                 size_t size) noexcept;

// Locks of a process's heap, in its control memory, so that processors of its node, who make all
// accumulates there, add at their speed: one at a time in a piece of the heap. A holder never waits
// for anything but memory.
class heap_locks {
 public:
  static constexpr size_t count = 64, piece_size = size_t{32} << 10;  // bytes of the heap

  struct alignas(64) word {
    uint32_t is_held;
  };

  // Holds at most one of them.
  class hold {
   public:
    explicit hold(const pgas::job &job) : job_{job} {}
    ~hold() {
      let_go();
    }
    hold(const hold &) = delete;
    hold &operator=(const hold &) = delete;

    // The one of the piece at `offset` of this heap. peer_lost if a process has died meanwhile: it
    // may have held it.
    status take(word *locks, size_t offset) noexcept {
      word *const wanted = locks + offset / piece_size % count;
      if (wanted == held_)
        return status::ok;
      let_go();
      return acquire(wanted);
    }
    void let_go() noexcept {
      if (held_ != nullptr)
        __atomic_store_n(&held_->is_held, 0, __ATOMIC_RELEASE);
      held_ = nullptr;
    }

   private:
    status acquire(word *wanted) noexcept;

    const pgas::job &job_;
    word *held_ = nullptr;
  };
};

// Where accumulates on a heap are done.
struct heap_side {
  std::byte *begin;
  heap_locks::word *locks;
  // Integers that lie at multiples of their size are added at once, too, for updates by who takes
  // no locks.
  bool has_updates;
};

// What is added, in blocks of whole elements.
struct addend {
  element of;
  const void *scale;
};

// Adds to the bytes at `offset` of the heap. peer_lost, with a message: as hold::take.
status add_under_locks(heap_locks::hold &hold, const heap_side &heap, size_t offset,
                       const addend &what, const std::byte *source, size_t size);

}  // namespace tanada::comex
