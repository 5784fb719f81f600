// products/comex/heap/hooks.cc: replaces malloc and related functions in libcomex.so. Large
// allocations of the program come from a swappable heap. All others go to the C library's malloc
// through its internal names.
//
// Before serve_program(), and after stop_serving(), each call costs one comparison.
#include "products/comex/heap/hooks.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>

#include "core/base/assert.hpp"
#include "core/base/checked.hpp"
#include "core/base/log.hpp"
#include "products/comex/heap/callers.hpp"
#include "seams/os/shared_memory.hpp"

extern "C" {
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *piece, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *piece);
}

#define HOOK extern "C" [[gnu::visibility("default")]]
#define CALLER __builtin_return_address(0)

namespace tanada::comex::heap {
namespace {

constexpr size_t nothing = SIZE_MAX;
constexpr uint32_t heap_count_max = 4;  // of a process that initializes comex again
constexpr size_t alignment_max = size_t{2} << 20;

// Every call reads this, so it has a cache line of its own.
struct alignas(64) hook_state {
  std::atomic<size_t> threshold{nothing};
  // Bounds of all heaps. They only grow, so a reader that mixes old and new bounds never mistakes a
  // heap's piece for one of the C library.
  std::atomic<uintptr_t> begin{UINTPTR_MAX}, end{0};
  std::atomic<pthread_t> owner{};  // the thread whose waits the library sees
  std::atomic<allocator *> current{nullptr};
  std::atomic<bool> is_child{false};  // a forked child has no heaps
  std::atomic<uint32_t> heap_count{0};
  allocator *heaps[heap_count_max] = {};
};
constinit hook_state state;
static_assert(std::atomic<size_t>::is_always_lock_free &&
              (alignment_max & (alignment_max - 1)) == 0);

bool is_in_heap_range(const void *piece) noexcept {
  auto const addr = reinterpret_cast<uintptr_t>(piece);
  return addr >= state.begin.load(std::memory_order_relaxed) &&
         addr < state.end.load(std::memory_order_relaxed);
}

// The heap that contains the piece; null: it belongs to the C library.
allocator *heap_of(const void *piece) noexcept {
  if (!is_in_heap_range(piece)) [[likely]]
    return nullptr;
  for (uint32_t i = 0; i < state.heap_count.load(std::memory_order_acquire); i++) {
    if (state.heaps[i]->has(piece))
      return state.heaps[i];
  }
  return nullptr;
}

bool is_owner() noexcept {
  return pthread_equal(pthread_self(), state.owner.load(std::memory_order_relaxed)) != 0;
}

// The heap that serves this caller; null: the C library. Memory of other threads must stay
// resident, because they do not wait when the owner does.
[[gnu::cold]] allocator *heap_for(size_t alignment, const void *caller) noexcept {
  auto *const heap = state.current.load(std::memory_order_acquire);
  if (heap == nullptr || alignment > alignment_max || is_system_code(caller))
    return nullptr;
  if (is_owner())
    return heap;
  static std::atomic<bool> has_warned{false};
  if (!has_warned.exchange(true)) {
    log(log_level::warning,
        "swapping: the program has threads: their allocations stay resident, and what they write "
        "to memory of the first thread while that waits is lost");
  }
  return nullptr;
}

[[gnu::cold]] void *allocate_from(allocator &heap, size_t size, size_t alignment) noexcept {
  try {
    if (void *const piece = heap.allocate(size, std::max(alignment, allocator::granule)))
      return piece;
  } catch (const std::bad_alloc &) {}
  errno = ENOMEM;
  return nullptr;
}

bool is_large(size_t size) noexcept {
  return size >= state.threshold.load(std::memory_order_relaxed);
}

void *allocate_piece(size_t size, const void *caller) noexcept {
  if (is_large(size)) [[unlikely]] {
    if (auto *const heap = heap_for(allocator::granule, caller))
      return allocate_from(*heap, size, allocator::granule);
  }
  return __libc_malloc(size);
}

void *allocate_zeroed(size_t count, size_t size, const void *caller) noexcept {
  size_t whole = 0;
  if (checked_multiply(count, size, whole) && is_large(whole)) [[unlikely]] {
    if (auto *const heap = heap_for(allocator::granule, caller)) {
      void *const piece = allocate_from(*heap, whole, allocator::granule);
      if (piece != nullptr)
        heap->clear(piece, whole);
      return piece;
    }
  }
  return __libc_calloc(count, size);
}

// Alignments are rounded up to powers of two, as the C library does.
void *allocate_aligned(size_t alignment, size_t size, const void *caller) noexcept {
  if (alignment <= alignment_max)
    alignment = std::bit_ceil(alignment);
  if (is_large(size)) [[unlikely]] {
    if (auto *const heap = heap_for(alignment, caller))
      return allocate_from(*heap, size, alignment);
  }
  return __libc_memalign(alignment, size);
}

void free_piece(void *piece) noexcept {
  auto *const heap = heap_of(piece);
  if (heap == nullptr)
    return __libc_free(piece);
  int const code = errno;
  if (!state.is_child.load(std::memory_order_relaxed))
    heap->release(piece);
  errno = code;
}

size_t system_size_of(void *piece) noexcept {
  using function = size_t (*)(void *);
  static std::atomic<function> known{nullptr};
  function function_found = known.load(std::memory_order_relaxed);
  if (function_found == nullptr) {
    function_found = reinterpret_cast<function>(dlsym(RTLD_NEXT, "malloc_usable_size"));
    known = function_found;
  }
  return function_found == nullptr ? 0 : function_found(piece);
}

size_t any_size_of(void *piece) noexcept {
  auto *const heap = heap_of(piece);
  return heap != nullptr ? heap->size_of(piece) : system_size_of(piece);
}

void *resize_piece(void *piece, size_t size, const void *caller) noexcept {
  auto *const heap = heap_of(piece);
  if (heap == nullptr && !is_large(size)) [[likely]]
    return __libc_realloc(piece, size);
  if (piece == nullptr)
    return allocate_piece(size, caller);
  if (size == 0) {
    free_piece(piece);
    return nullptr;
  }
  if (heap != nullptr && is_large(size) && (is_owner() || size <= heap->size_of(piece)) &&
      heap->resize(piece, size))
    return piece;
  if (heap == nullptr && is_system_code(caller))
    return __libc_realloc(piece, size);
  void *const moved = allocate_piece(size, caller);
  if (moved == nullptr)
    return nullptr;
  size_t const before = any_size_of(piece);
  std::memcpy(moved, piece, before < size ? before : size);
  free_piece(piece);
  return moved;
}

bool is_power(size_t number) noexcept {
  return number != 0 && (number & (number - 1)) == 0;
}

// Handlers for fork(): the child has no heap, and no thread is inside one during the fork. The
// analysis cannot follow locks that another handler releases.
void before_fork() TND_NO_THREAD_SAFETY_ANALYSIS {
  for (uint32_t i = 0; i < state.heap_count.load(); i++)
    state.heaps[i]->lock();
}
void after_fork() TND_NO_THREAD_SAFETY_ANALYSIS {
  for (uint32_t i = 0; i < state.heap_count.load(); i++)
    state.heaps[i]->unlock();
}
void after_fork_in_child() {
  state.is_child = true;
  state.threshold = nothing;
  after_fork();
}

void warn_of_library_order() {
  if (dlsym(RTLD_DEFAULT, "malloc") == reinterpret_cast<void *>(&malloc))
    return;
  log(log_level::warning,
      "the program's malloc is not that of libcomex: its own allocations stay resident; link "
      "-lcomex before MPI's libraries, or start the program with LD_PRELOAD=libcomex.so");
}

}  // namespace

void serve_program(allocator &heap, size_t threshold) {
  uint32_t const index = state.heap_count.load();
  warn_of_library_order();
  TND_ASSERT(index <= heap_count_max && threshold >= allocator::granule);
  if (index == heap_count_max)
    return log(
        log_level::warning,
        "the program's large allocations stay resident: comex was initialized {} times before",
        index);
  auto const memory = heap.memory();
  (void)madvise(memory.data(), memory.size(), MADV_DONTFORK);
  auto const begin = reinterpret_cast<uintptr_t>(memory.data());
  if (index == 0)
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
  state.heaps[index] = &heap;
  state.heap_count.store(index + 1, std::memory_order_release);
  state.end = std::max(begin + memory.size(), state.end.load());
  state.begin = std::min(begin, state.begin.load());
  state.owner = pthread_self();
  state.current.store(&heap, std::memory_order_release);
  state.threshold = threshold;
}

void stop_serving() noexcept {
  state.threshold = nothing;
  state.current = nullptr;
}

}  // namespace tanada::comex::heap

using namespace tanada::comex::heap;

HOOK void *malloc(size_t size) noexcept {
  return allocate_piece(size, CALLER);
}
HOOK void *calloc(size_t count, size_t size) noexcept {
  return allocate_zeroed(count, size, CALLER);
}
HOOK void *realloc(void *piece, size_t size) noexcept {
  return resize_piece(piece, size, CALLER);
}
HOOK void free(void *piece) noexcept {
  free_piece(piece);
}
HOOK size_t malloc_usable_size(void *piece) noexcept {
  return piece == nullptr ? 0 : any_size_of(piece);
}
HOOK void *memalign(size_t alignment, size_t size) noexcept {
  return allocate_aligned(alignment, size, CALLER);
}
HOOK void *aligned_alloc(size_t alignment, size_t size) noexcept {
  return allocate_aligned(alignment, size, CALLER);
}
HOOK void *valloc(size_t size) noexcept {
  return allocate_aligned(tanada::seams::page_size(), size, CALLER);
}
HOOK void *pvalloc(size_t size) noexcept {
  if (size > SIZE_MAX - tanada::seams::page_size()) {
    errno = ENOMEM;
    return nullptr;
  }
  return allocate_aligned(tanada::seams::page_size(), tanada::seams::pages_size(size), CALLER);
}

HOOK void *reallocarray(void *piece, size_t count, size_t size) noexcept {
  size_t whole = 0;
  if (tanada::checked_multiply(count, size, whole))
    return resize_piece(piece, whole, CALLER);
  errno = ENOMEM;
  return nullptr;
}

HOOK int posix_memalign(void **result, size_t alignment, size_t size) noexcept {
  if (!is_power(alignment) || alignment % sizeof(void *) != 0)
    return EINVAL;
  int const code = errno;
  void *const piece = allocate_aligned(alignment, size, CALLER);
  errno = code;
  if (piece == nullptr)
    return ENOMEM;
  *result = piece;
  return 0;
}

// C++ operators, so that their callers are seen. Otherwise the C++ library would be the caller of
// all of them.
namespace {

template <class Get>
void *get_or_throw(Get &&get) {
  for (;;) {
    if (void *const piece = get())
      return piece;
    std::new_handler const handler = std::get_new_handler();
    if (handler == nullptr)
      throw std::bad_alloc{};
    handler();
  }
}

size_t nonzero_size(size_t size) noexcept {
  return size == 0 ? 1 : size;
}

}  // namespace

#define VISIBLE [[gnu::visibility("default")]]

VISIBLE void *operator new(size_t size) {
  void *const caller = CALLER;
  return get_or_throw([&] { return allocate_piece(nonzero_size(size), caller); });
}
VISIBLE void *operator new[](size_t size) {
  void *const caller = CALLER;
  return get_or_throw([&] { return allocate_piece(nonzero_size(size), caller); });
}
VISIBLE void *operator new(size_t size, std::align_val_t alignment) {
  void *const caller = CALLER;
  return get_or_throw(
      [&] { return allocate_aligned(size_t(alignment), nonzero_size(size), caller); });
}
VISIBLE void *operator new[](size_t size, std::align_val_t alignment) {
  void *const caller = CALLER;
  return get_or_throw(
      [&] { return allocate_aligned(size_t(alignment), nonzero_size(size), caller); });
}
VISIBLE void *operator new(size_t size, const std::nothrow_t &) noexcept {
  return allocate_piece(nonzero_size(size), CALLER);
}
VISIBLE void *operator new[](size_t size, const std::nothrow_t &) noexcept {
  return allocate_piece(nonzero_size(size), CALLER);
}
VISIBLE void *operator new(size_t size,
                           std::align_val_t alignment,
                           const std::nothrow_t &) noexcept {
  return allocate_aligned(size_t(alignment), nonzero_size(size), CALLER);
}
VISIBLE void *operator new[](size_t size,
                             std::align_val_t alignment,
                             const std::nothrow_t &) noexcept {
  return allocate_aligned(size_t(alignment), nonzero_size(size), CALLER);
}
VISIBLE void operator delete(void *piece) noexcept {
  free_piece(piece);
}
VISIBLE void operator delete[](void *piece) noexcept {
  free_piece(piece);
}
VISIBLE void operator delete(void *piece, size_t) noexcept {
  free_piece(piece);
}
VISIBLE void operator delete[](void *piece, size_t) noexcept {
  free_piece(piece);
}
VISIBLE void operator delete(void *piece, std::align_val_t) noexcept {
  free_piece(piece);
}
VISIBLE void operator delete[](void *piece, std::align_val_t) noexcept {
  free_piece(piece);
}
VISIBLE void operator delete(void *piece, size_t, std::align_val_t) noexcept {
  free_piece(piece);
}
VISIBLE void operator delete[](void *piece, size_t, std::align_val_t) noexcept {
  free_piece(piece);
}
VISIBLE void operator delete(void *piece, const std::nothrow_t &) noexcept {
  free_piece(piece);
}
VISIBLE void operator delete[](void *piece, const std::nothrow_t &) noexcept {
  free_piece(piece);
}
VISIBLE void operator delete(void *piece, std::align_val_t, const std::nothrow_t &) noexcept {
  free_piece(piece);
}
VISIBLE void operator delete[](void *piece, std::align_val_t, const std::nothrow_t &) noexcept {
  free_piece(piece);
}
