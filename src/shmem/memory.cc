// Allocation: the same pieces in all PEs, found by each for itself. Barriers keep the others from memory that is not there
// yet, or not any more.
#include <bit>
#include <cstring>

#include "shmem/access.hpp"
#include "shmem/heap.hpp"

namespace tanada::shmem {
namespace {

void check_equal(runtime &current, const char *call, const char *argument, uint64_t value) {
  if (current.options.is_debug) [[unlikely]] require_equal(current, nullptr, call, argument, value);
}

// No bytes: nothing is done, there is no barrier. No room: null in all PEs, after the barrier.
void *allocate(const char *call, size_t size, size_t alignment, bool is_cleared) {
  auto &current = require_running(call);
  check_equal(current, call, "the size", size);
  check_equal(current, call, "the alignment", alignment);
  if (size == 0) return nullptr;
  void *const made = current.heap->allocate(size, alignment);
  if (made != nullptr && is_cleared) std::memset(made, 0, size);
  pshmem_barrier_all();
  return made;
}

uint64_t offset_of(const runtime &current, const void *piece) {
  return reinterpret_cast<uintptr_t>(piece) - reinterpret_cast<uintptr_t>(current.job->heap().data());
}

[[noreturn]] void no_piece(const char *call, const void *piece) {
  fatal(call, "address %p is not the beginning of a piece of the symmetric heap", piece);
}

void release(const char *call, void *piece) {
  auto &current = require_running(call);
  if (piece == nullptr) return;
  check_equal(current, call, "the offset in the heap", offset_of(current, piece));
  if (!current.heap->size_of(piece)) no_piece(call, piece);
  pshmem_barrier_all();
  if (!current.heap->release(piece)) no_piece(call, piece);
}

void *reallocate(const char *call, void *piece, size_t size) {
  auto &current = require_running(call);
  if (piece == nullptr) return allocate(call, size, symmetric_heap::granule, false);
  if (size == 0) {
    release(call, piece);
    return nullptr;
  }
  check_equal(current, call, "the offset in the heap", offset_of(current, piece));
  check_equal(current, call, "the size", size);
  auto const old_size = current.heap->size_of(piece);
  if (!old_size) no_piece(call, piece);
  pshmem_barrier_all();  // what others put comes before it is moved
  void *made = piece;
  if (!current.heap->resize(piece, size)) {
    made = current.heap->allocate(size);
    if (made != nullptr) {
      std::memcpy(made, piece, std::min(size, *old_size));
      static_cast<void>(current.heap->release(piece));
    }
  }
  pshmem_barrier_all();
  return made;
}

// More than there can be is what the heap does not have.
size_t product(size_t count, size_t size) {
  size_t total = 0;
  return __builtin_mul_overflow(count, size, &total) ? SIZE_MAX : total;
}

size_t checked_alignment(const char *call, size_t alignment) {
  if (!std::has_single_bit(alignment)) fatal(call, "an alignment of %zu, which is no power of two", alignment);
  return alignment;
}

}  // namespace
}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(void *, shmem_malloc, (size_t size), { return allocate(call, size, symmetric_heap::granule, false); })
SHMEM_DEFINE(void *, shmem_calloc, (size_t count, size_t size), {
  return allocate(call, product(count, size), symmetric_heap::granule, true);
})
SHMEM_DEFINE(void *, shmem_align, (size_t alignment, size_t size), {
  return allocate(call, size, checked_alignment(call, alignment), false);
})
SHMEM_DEFINE(void *, shmem_realloc, (void *ptr, size_t size), { return reallocate(call, ptr, size); })
SHMEM_DEFINE(void, shmem_free, (void *ptr), { release(call, ptr); })

// All of the heap is good for atomics and signals: the hints change nothing.
SHMEM_DEFINE(void *, shmem_malloc_with_hints, (size_t size, long hints), {
  check_equal(require_running(call), call, "the hints", uint64_t(hints));
  return allocate(call, size, symmetric_heap::granule, false);
})

SHMEM_DEFINE(void *, shmalloc, (size_t size), { return allocate(call, size, symmetric_heap::granule, false); })
SHMEM_DEFINE(void *, shmemalign, (size_t alignment, size_t size), {
  return allocate(call, size, checked_alignment(call, alignment), false);
})
SHMEM_DEFINE(void *, shrealloc, (void *ptr, size_t size), { return reallocate(call, ptr, size); })
SHMEM_DEFINE(void, shfree, (void *ptr), { release(call, ptr); })
