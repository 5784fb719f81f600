// Allocation: the same pieces in all PEs, found by each for itself. Barriers keep the others from
// memory that is not there yet, or not any more.
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstring>

#include "products/shmem/access.hpp"
#include "products/shmem/heap.hpp"

namespace tanada::shmem {
namespace {

// Of pieces of a device's heap: rows of a GPU's memory that a warp reads at once begin where pieces
// do.
constexpr size_t device_alignment = 512;

void check_equal(runtime &current, const char *call, const char *argument, uint64_t value) {
  if (current.options.is_debug) [[unlikely]]
    require_equal(current, nullptr, call, argument, value);
}

// A heap: its books, and where it begins.
struct pieces {
  symmetric_heap *books;
  const std::byte *begin;
  size_t size;  // bytes of the heap
  bool is_device;
};

pieces host_pieces(runtime &current) {
  auto const heap = current.job->heap();
  return {current.heap.get(), heap.data(), heap.size(), false};
}

// All PEs find it out alike: one of them writes it, once. A program that takes all it can get has
// no use for a second line.
void note_full(const runtime &current, const char *call, const pieces &of, size_t size,
               size_t alignment) {
  static std::atomic<bool> is_noted{false};
  if (current.job->me() != 0 || is_noted.exchange(true))
    return;
  std::fprintf(
      stderr,
      "%s: the %s has no room for %zu bytes at a multiple of %zu: %zu of its %zu bytes are free. "
      "%s sets its size, for example %s=1G\n",
      call, of.is_device ? "device heap" : "symmetric heap", size, alignment, of.books->free_size(),
      of.size, of.is_device ? "SHMEM_DEVICE_SYMMETRIC_SIZE" : "SHMEM_SYMMETRIC_SIZE",
      of.is_device ? "SHMEM_DEVICE_SYMMETRIC_SIZE" : "SHMEM_SYMMETRIC_SIZE");
}

pieces device_pieces(runtime &current, const char *call) {
  if (!current.device)
    fatal(call,
          "no device: start with shmem_init_thread(level | SHMEM_DEVICE_HOST_INIT, &provided)");
  auto const heap = current.job->device_heap();
  return {current.device_heap.get(), heap.data(), heap.size(), true};
}

void clear(runtime &current, const char *call, void *piece, size_t size, bool is_device) {
  if (!is_device) {
    std::memset(piece, 0, size);
    return;
  }
  status const code = current.device->fill_device(piece, 0, size);
  if (code != status::ok)
    fatal(code, {call, piece, size, int(current.job->me())});
}

// No bytes: nothing is done, there is no barrier. No room: null in all PEs, after the barrier.
void *allocate(const char *call, const pieces &of, size_t size, size_t alignment, bool is_cleared) {
  auto &current = require_running(call);
  check_equal(current, call, "the size", size);
  check_equal(current, call, "the alignment", alignment);
  if (size == 0)
    return nullptr;
  void *const made = of.books->allocate(size, alignment);
  if (made == nullptr)
    note_full(current, call, of, size, alignment);
  if (made != nullptr && is_cleared)
    clear(current, call, made, size, of.is_device);
  pshmem_barrier_all();
  return made;
}
void *allocate(const char *call, size_t size, size_t alignment, bool is_cleared) {
  return allocate(call, host_pieces(require_running(call)), size, alignment, is_cleared);
}
void *allocate_device(const char *call, size_t size, size_t alignment, bool is_cleared) {
  return allocate(call, device_pieces(require_running(call), call), size, alignment, is_cleared);
}

uint64_t offset_of(const pieces &of, const void *piece) {
  return reinterpret_cast<uintptr_t>(piece) - reinterpret_cast<uintptr_t>(of.begin);
}

[[noreturn]] void no_piece(const char *call, const pieces &of, const void *piece) {
  if (is_device_memory(require_running(call), piece) != of.is_device) {
    if (of.is_device)
      fatal(call, "address %p is not memory of the device: shmem_free is for memory of the host",
            piece);
    fatal(call, "address %p is memory of the device, for which there is shmemg_free", piece);
  }
  fatal(call, "address %p is not the beginning of a piece of the %s", piece,
        of.is_device ? "device heap" : "symmetric heap");
}

void release(const char *call, const pieces &of, void *piece) {
  auto &current = require_running(call);
  if (piece == nullptr)
    return;
  check_equal(current, call, "the offset in the heap", offset_of(of, piece));
  if (!of.books->size_of(piece))
    no_piece(call, of, piece);
  pshmem_barrier_all();
  if (!of.books->release(piece))
    no_piece(call, of, piece);
}
void release(const char *call, void *piece) {
  release(call, host_pieces(require_running(call)), piece);
}

void *reallocate(const char *call, void *piece, size_t size) {
  auto &current = require_running(call);
  if (piece == nullptr)
    return allocate(call, size, symmetric_heap::granule, false);
  if (size == 0) {
    release(call, piece);
    return nullptr;
  }
  auto const heap = host_pieces(current);
  check_equal(current, call, "the offset in the heap", offset_of(heap, piece));
  check_equal(current, call, "the size", size);
  auto const old_size = current.heap->size_of(piece);
  if (!old_size)
    no_piece(call, heap, piece);
  pshmem_barrier_all();  // what others put comes before it is moved
  void *made = piece;
  if (!current.heap->resize(piece, size)) {
    made = current.heap->allocate(size);
    if (made == nullptr) {
      note_full(current, call, heap, size, symmetric_heap::granule);
    } else {
      std::memcpy(made, piece, std::min(size, *old_size));
      static_cast<void>(current.heap->release(piece));
    }
  }
  pshmem_barrier_all();
  return made;
}

// More than there can be is what the heap does not have.
size_t size_of_array(size_t count, size_t size) {
  size_t total = 0;
  return __builtin_mul_overflow(count, size, &total) ? SIZE_MAX : total;
}

size_t checked_alignment(const char *call, size_t alignment) {
  if (!std::has_single_bit(alignment))
    fatal(call, "an alignment of %zu, which is no power of two", alignment);
  return alignment;
}

}  // namespace
}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(void *, shmem_malloc, (size_t size),
             { return allocate(call, size, symmetric_heap::granule, false); })
SHMEM_DEFINE(void *, shmem_calloc, (size_t count, size_t size),
             { return allocate(call, size_of_array(count, size), symmetric_heap::granule, true); })
SHMEM_DEFINE(void *, shmem_align, (size_t alignment, size_t size),
             { return allocate(call, size, checked_alignment(call, alignment), false); })
SHMEM_DEFINE(void *, shmem_realloc, (void *ptr, size_t size),
             { return reallocate(call, ptr, size); })
SHMEM_DEFINE(void, shmem_free, (void *ptr), { release(call, ptr); })

// All of the heap is good for atomics and signals: the hints change nothing.
SHMEM_DEFINE(void *, shmem_malloc_with_hints, (size_t size, long hints), {
  check_equal(require_running(call), call, "the hints", uint64_t(hints));
  return allocate(call, size, symmetric_heap::granule, false);
})

SHMEM_DEFINE(void *, shmalloc, (size_t size),
             { return allocate(call, size, symmetric_heap::granule, false); })
SHMEM_DEFINE(void *, shmemalign, (size_t alignment, size_t size),
             { return allocate(call, size, checked_alignment(call, alignment), false); })
SHMEM_DEFINE(void *, shrealloc, (void *ptr, size_t size), { return reallocate(call, ptr, size); })
SHMEM_DEFINE(void, shfree, (void *ptr), { release(call, ptr); })

// The draft auxiliary specification for GPUs, 0.1.
SHMEM_DEFINE(void *, shmemg_malloc, (size_t size),
             { return allocate_device(call, size, device_alignment, false); })
SHMEM_DEFINE(void *, shmemg_calloc, (size_t count, size_t size),
             { return allocate_device(call, size_of_array(count, size), device_alignment, true); })
SHMEM_DEFINE(void *, shmemg_align, (size_t alignment, size_t size),
             { return allocate_device(call, size, checked_alignment(call, alignment), false); })
SHMEM_DEFINE(int, shmemx_device_kind, (void), {
  auto const &current = require_running(call);
  if (!current.device)
    return SHMEMX_DEVICE_NONE;
  auto const &info = current.device->info();
  return info.is_cuda      ? SHMEMX_DEVICE_CUDA
         : info.is_guarded ? SHMEMX_DEVICE_GUARDED
                           : SHMEMX_DEVICE_HOST;
})
SHMEM_DEFINE(void, shmemg_free, (void *ptr),
             { release(call, device_pieces(require_running(call), call), ptr); })
