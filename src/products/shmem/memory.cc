// Allocation of symmetric memory. Each PE allocates the same block by itself. Barriers prevent
// other PEs from accessing memory before it is allocated or after it is freed.
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstring>

#include "products/shmem/access.hpp"
#include "products/shmem/heap.hpp"

namespace tanada::shmem {
namespace {

// Alignment of blocks of a device heap: rows of device memory that a warp reads at once begin at
// block boundaries.
constexpr size_t device_alignment = 512;
static_assert(device_alignment % symmetric_heap::granule == 0);

void check_equal(runtime &current, const char *call, const char *argument, uint64_t value) {
  if (current.options.is_debug) [[unlikely]]
    require_equal(current, nullptr, call, argument, value);
}

// A heap: its allocator and its address range.
struct heap_view {
  symmetric_heap *allocator;
  const std::byte *begin;
  size_t size;  // bytes of the heap
  bool is_device;
};

heap_view host_heap(runtime &current) {
  auto const heap = current.job->heap();
  return {current.heap.get(), heap.data(), heap.size(), false};
}

// All PEs fail alike, so PE 0 logs it, once: a program that allocates until the heap is full needs
// no second line.
void log_full(const runtime &current,
              const char *call,
              const heap_view &heap,
              size_t size,
              size_t alignment) {
  static std::atomic<bool> is_noted{false};
  if (current.job->me() != 0 || is_noted.exchange(true))
    return;
  std::fprintf(stderr,
               "%s: the %s cannot hold %zu bytes aligned to %zu: %zu of its %zu bytes are free. "
               "%s sets its size, for example %s=1G\n",
               call,
               heap.is_device ? "device heap" : "symmetric heap",
               size,
               alignment,
               heap.allocator->free_size(),
               heap.size,
               heap.is_device ? "SHMEM_DEVICE_SYMMETRIC_SIZE" : "SHMEM_SYMMETRIC_SIZE",
               heap.is_device ? "SHMEM_DEVICE_SYMMETRIC_SIZE" : "SHMEM_SYMMETRIC_SIZE");
}

heap_view device_heap(runtime &current, const char *call) {
  if (!current.device)
    fatal(call,
          "this PE has no device: start with shmem_init_thread(level | SHMEM_DEVICE_HOST_INIT, "
          "&provided)");
  auto const heap = current.job->device_heap();
  return {current.device_heap.get(), heap.data(), heap.size(), true};
}

void clear(runtime &current, const char *call, void *block, size_t size, bool is_device) {
  if (!is_device) {
    std::memset(block, 0, size);
    return;
  }
  status const code = current.device->fill_device(block, 0, size);
  if (code != status::ok)
    fatal(code, {call, block, size, int(current.job->me())});
}

// Size 0: returns null without a barrier. Insufficient memory: returns null in all PEs, after the
// barrier.
void *allocate(
    const char *call, const heap_view &heap, size_t size, size_t alignment, bool is_cleared) {
  TND_ASSERT(heap.allocator != nullptr);
  auto &current = require_running(call);
  check_equal(current, call, "the size", size);
  check_equal(current, call, "the alignment", alignment);
  if (size == 0)
    return nullptr;
  if (!std::has_single_bit(alignment)) {
    if (current.job->me() == 0)
      std::fprintf(stderr, "%s: the alignment %zu is not a power of two\n", call, alignment);
    pshmem_barrier_all();
    return nullptr;
  }
  void *const block = heap.allocator->allocate(size, alignment);
  if (block == nullptr)
    log_full(current, call, heap, size, alignment);
  if (block != nullptr && is_cleared)
    clear(current, call, block, size, heap.is_device);
  pshmem_barrier_all();
  return block;
}
void *allocate(const char *call, size_t size, size_t alignment, bool is_cleared) {
  return allocate(call, host_heap(require_running(call)), size, alignment, is_cleared);
}
void *allocate_device(const char *call, size_t size, size_t alignment, bool is_cleared) {
  return allocate(call, device_heap(require_running(call), call), size, alignment, is_cleared);
}

uint64_t offset_of(const heap_view &heap, const void *block) {
  return reinterpret_cast<uintptr_t>(block) - reinterpret_cast<uintptr_t>(heap.begin);
}

[[noreturn]] void fatal_no_block(const char *call, const heap_view &heap, const void *block) {
  if (is_device_memory(require_running(call), block) != heap.is_device) {
    if (heap.is_device)
      fatal(call, "address {} is not device memory: use shmem_free for host memory", block);
    fatal(call, "address {} is device memory: use shmemg_free", block);
  }
  fatal(call,
        "address {} is not the start of a block of the {}",
        block,
        heap.is_device ? "device heap" : "symmetric heap");
}

void release(const char *call, const heap_view &heap, void *block) {
  auto &current = require_running(call);
  if (block == nullptr)
    return;
  check_equal(current, call, "the offset in the heap", offset_of(heap, block));
  if (!heap.allocator->size_of(block))
    fatal_no_block(call, heap, block);
  pshmem_barrier_all();
  if (!heap.allocator->release(block))
    fatal_no_block(call, heap, block);
}
void release(const char *call, void *block) {
  release(call, host_heap(require_running(call)), block);
}

void *reallocate(const char *call, void *block, size_t size) {
  auto &current = require_running(call);
  if (block == nullptr)
    return allocate(call, size, symmetric_heap::granule, false);
  if (size == 0) {
    release(call, block);
    return nullptr;
  }
  auto const heap = host_heap(current);
  check_equal(current, call, "the offset in the heap", offset_of(heap, block));
  check_equal(current, call, "the size", size);
  auto const old_size = current.heap->size_of(block);
  if (!old_size)
    fatal_no_block(call, heap, block);
  pshmem_barrier_all();  // other PEs' puts complete before the block moves
  void *moved = block;
  if (!current.heap->resize(block, size)) {
    moved = current.heap->allocate(size);
    if (moved == nullptr) {
      log_full(current, call, heap, size, symmetric_heap::granule);
    } else {
      std::memcpy(moved, block, std::min(size, *old_size));
      static_cast<void>(current.heap->release(block));
    }
  }
  pshmem_barrier_all();
  return moved;
}

// On overflow returns SIZE_MAX, which the heap does not have.
size_t size_of_array(size_t count, size_t size) {
  size_t total = 0;
  return __builtin_mul_overflow(count, size, &total) ? SIZE_MAX : total;
}

}  // namespace
}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(void *, shmem_malloc, (size_t size), {
  return allocate(call, size, symmetric_heap::granule, false);
})
SHMEM_DEFINE(void *, shmem_calloc, (size_t count, size_t size), {
  return allocate(call, size_of_array(count, size), symmetric_heap::granule, true);
})
SHMEM_DEFINE(void *, shmem_align, (size_t alignment, size_t size), {
  return allocate(call, size, alignment, false);
})
SHMEM_DEFINE(void *, shmem_realloc, (void *ptr, size_t size), {
  return reallocate(call, ptr, size);
})
SHMEM_DEFINE(void, shmem_free, (void *ptr), { release(call, ptr); })

// The whole heap supports atomics and signals, so the hints have no effect.
SHMEM_DEFINE(void *, shmem_malloc_with_hints, (size_t size, long hints), {
  check_equal(require_running(call), call, "the hints", uint64_t(hints));
  return allocate(call, size, symmetric_heap::granule, false);
})

SHMEM_DEFINE(void *, shmalloc, (size_t size), {
  return allocate(call, size, symmetric_heap::granule, false);
})
SHMEM_DEFINE(void *, shmemalign, (size_t alignment, size_t size), {
  return allocate(call, size, alignment, false);
})
SHMEM_DEFINE(void *, shrealloc, (void *ptr, size_t size), { return reallocate(call, ptr, size); })
SHMEM_DEFINE(void, shfree, (void *ptr), { release(call, ptr); })

// The draft auxiliary specification for GPUs, 0.1.
SHMEM_DEFINE(void *, shmemg_malloc, (size_t size), {
  return allocate_device(call, size, device_alignment, false);
})
SHMEM_DEFINE(void *, shmemg_calloc, (size_t count, size_t size), {
  return allocate_device(call, size_of_array(count, size), device_alignment, true);
})
SHMEM_DEFINE(void *, shmemg_align, (size_t alignment, size_t size), {
  return allocate_device(call, size, alignment, false);
})
SHMEM_DEFINE(int, shmemx_device_kind, (void), {
  auto const &current = require_running(call);
  if (!current.device)
    return SHMEMX_DEVICE_NONE;
  auto const &info = current.device->info();
  return info.is_cuda      ? SHMEMX_DEVICE_CUDA
         : info.is_guarded ? SHMEMX_DEVICE_GUARDED
                           : SHMEMX_DEVICE_HOST;
})
SHMEM_DEFINE(void, shmemg_free, (void *ptr), {
  release(call, device_heap(require_running(call), call), ptr);
})
