// malloc and its kin as libcomex.so has them for the program: what is large, and the program's,
// comes of a heap that may leave memory; all else comes of the system's malloc by the names that it
// keeps for this.
//
// Before serve_program, and after stop_serving, each call costs a comparison.
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
constexpr uint32_t heap_count_max = 4;  // of a process that begins again
constexpr size_t alignment_max = size_t{2} << 20;

// Read by every call, so that they are alone in their line.
struct alignas(64) served {
  std::atomic<size_t> threshold{nothing};
  // The addresses that all heaps lie between: they only grow, so that who reads one before and one
  // after sees no piece as the system's.
  std::atomic<uintptr_t> begin{UINTPTR_MAX}, end{0};
  std::atomic<pthread_t> owner{};  // the thread whose waits the library knows
  std::atomic<pieces *> now{nullptr};
  std::atomic<bool> is_child{false};  // of a fork: heaps are not there
  std::atomic<uint32_t> heap_count{0};
  pieces *heaps[heap_count_max] = {};
};
constinit served state;

bool is_between(const void *piece) noexcept {
  auto const addr = reinterpret_cast<uintptr_t>(piece);
  return addr >= state.begin.load(std::memory_order_relaxed) &&
         addr < state.end.load(std::memory_order_relaxed);
}

// The heap that it lies in; null: it is the system's.
pieces *heap_of(const void *piece) noexcept {
  if (!is_between(piece)) [[likely]]
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

// Where a piece comes of that this code asks for; null: of the system. What other threads have must
// stay: they do not wait when the owner does.
[[gnu::cold]] pieces *source_for(size_t alignment, const void *caller) noexcept {
  auto *const heap = state.now.load(std::memory_order_acquire);
  if (heap == nullptr || alignment > alignment_max || is_code_of_system(caller))
    return nullptr;
  if (is_owner())
    return heap;
  static std::atomic<bool> is_told{false};
  if (!is_told.exchange(true)) {
    log(log_level::warning,
        "swapping: the program has threads: what those allocate stays in memory, and what they do "
        "with memory of the first while that "
        "waits is lost");
  }
  return nullptr;
}

[[gnu::cold]] void *take(pieces &heap, size_t size, size_t alignment) noexcept {
  try {
    if (void *const piece = heap.allocate(size, std::max(alignment, pieces::granule)))
      return piece;
  } catch (const std::bad_alloc &) {}
  errno = ENOMEM;
  return nullptr;
}

bool is_large(size_t size) noexcept {
  return size >= state.threshold.load(std::memory_order_relaxed);
}

void *get(size_t size, const void *caller) noexcept {
  if (is_large(size)) [[unlikely]] {
    if (auto *const heap = source_for(pieces::granule, caller))
      return take(*heap, size, pieces::granule);
  }
  return __libc_malloc(size);
}

void *get_zeros(size_t count, size_t size, const void *caller) noexcept {
  size_t whole = 0;
  if (checked_multiply(count, size, whole) && is_large(whole)) [[unlikely]] {
    if (auto *const heap = source_for(pieces::granule, caller)) {
      void *const piece = take(*heap, whole, pieces::granule);
      if (piece != nullptr)
        heap->clear(piece, whole);
      return piece;
    }
  }
  return __libc_calloc(count, size);
}

// Alignments that are no powers of two are rounded up, as the system does it.
void *get_aligned(size_t alignment, size_t size, const void *caller) noexcept {
  if (alignment <= alignment_max)
    alignment = std::bit_ceil(alignment);
  if (is_large(size)) [[unlikely]] {
    if (auto *const heap = source_for(alignment, caller))
      return take(*heap, size, alignment);
  }
  return __libc_memalign(alignment, size);
}

void let_go(void *piece) noexcept {
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
  function found = known.load(std::memory_order_relaxed);
  if (found == nullptr) {
    found = reinterpret_cast<function>(dlsym(RTLD_NEXT, "malloc_usable_size"));
    known = found;
  }
  return found == nullptr ? 0 : found(piece);
}

size_t any_size_of(void *piece) noexcept {
  auto *const heap = heap_of(piece);
  return heap != nullptr ? heap->size_of(piece) : system_size_of(piece);
}

void *change(void *piece, size_t size, const void *caller) noexcept {
  auto *const heap = heap_of(piece);
  if (heap == nullptr && !is_large(size)) [[likely]]
    return __libc_realloc(piece, size);
  if (piece == nullptr)
    return get(size, caller);
  if (size == 0) {
    let_go(piece);
    return nullptr;
  }
  if (heap != nullptr && is_large(size) && (is_owner() || size <= heap->size_of(piece)) &&
      heap->resize(piece, size))
    return piece;
  if (heap == nullptr && is_code_of_system(caller))
    return __libc_realloc(piece, size);
  void *const other = get(size, caller);
  if (other == nullptr)
    return nullptr;
  size_t const before = any_size_of(piece);
  std::memcpy(other, piece, before < size ? before : size);
  let_go(piece);
  return other;
}

bool is_power(size_t number) noexcept {
  return number != 0 && (number & (number - 1)) == 0;
}

// fork(): the child has no heap, and nobody is in the middle of one.
void before_fork() {
  for (uint32_t i = 0; i < state.heap_count.load(); i++)
    state.heaps[i]->lock();
}
void after_fork() {
  for (uint32_t i = 0; i < state.heap_count.load(); i++)
    state.heaps[i]->unlock();
}
void in_child() {
  state.is_child = true;
  state.threshold = nothing;
  after_fork();
}

void warn_of_order() {
  if (dlsym(RTLD_DEFAULT, "malloc") == reinterpret_cast<void *>(&malloc))
    return;
  log(log_level::warning,
      "the program's malloc is not libcomex's: what it allocates itself stays in memory; link "
      "-lcomex before MPI's libraries, or start it "
      "with LD_PRELOAD=libcomex.so");
}

}  // namespace

void serve_program(pieces &from, size_t threshold) {
  uint32_t const index = state.heap_count.load();
  warn_of_order();
  if (index == heap_count_max)
    return log(log_level::warning,
               "the program's large pieces stay in memory: it has begun %u times", index);
  auto const memory = from.memory();
  (void)madvise(memory.data(), memory.size(), MADV_DONTFORK);
  auto const begin = reinterpret_cast<uintptr_t>(memory.data());
  if (index == 0)
    pthread_atfork(before_fork, after_fork, in_child);
  state.heaps[index] = &from;
  state.heap_count.store(index + 1, std::memory_order_release);
  state.end = std::max(begin + memory.size(), state.end.load());
  state.begin = std::min(begin, state.begin.load());
  state.owner = pthread_self();
  state.now.store(&from, std::memory_order_release);
  state.threshold = threshold;
}

void stop_serving() noexcept {
  state.threshold = nothing;
  state.now = nullptr;
}

}  // namespace tanada::comex::heap

using namespace tanada::comex::heap;

HOOK void *malloc(size_t size) noexcept {
  return get(size, CALLER);
}
HOOK void *calloc(size_t count, size_t size) noexcept {
  return get_zeros(count, size, CALLER);
}
HOOK void *realloc(void *piece, size_t size) noexcept {
  return change(piece, size, CALLER);
}
HOOK void free(void *piece) noexcept {
  let_go(piece);
}
HOOK size_t malloc_usable_size(void *piece) noexcept {
  return piece == nullptr ? 0 : any_size_of(piece);
}
HOOK void *memalign(size_t alignment, size_t size) noexcept {
  return get_aligned(alignment, size, CALLER);
}
HOOK void *aligned_alloc(size_t alignment, size_t size) noexcept {
  return get_aligned(alignment, size, CALLER);
}
HOOK void *valloc(size_t size) noexcept {
  return get_aligned(tanada::port::page_size(), size, CALLER);
}
HOOK void *pvalloc(size_t size) noexcept {
  if (size > SIZE_MAX - tanada::port::page_size()) {
    errno = ENOMEM;
    return nullptr;
  }
  return get_aligned(tanada::port::page_size(), tanada::port::pages_size(size), CALLER);
}

HOOK void *reallocarray(void *piece, size_t count, size_t size) noexcept {
  size_t whole = 0;
  if (tanada::checked_multiply(count, size, whole))
    return change(piece, whole, CALLER);
  errno = ENOMEM;
  return nullptr;
}

HOOK int posix_memalign(void **made, size_t alignment, size_t size) noexcept {
  if (!is_power(alignment) || alignment % sizeof(void *) != 0)
    return EINVAL;
  int const code = errno;
  void *const piece = get_aligned(alignment, size, CALLER);
  errno = code;
  if (piece == nullptr)
    return ENOMEM;
  *made = piece;
  return 0;
}

// C++'s own, so that it is seen who calls them: the library that has them is no answer.
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

size_t some(size_t size) noexcept {
  return size == 0 ? 1 : size;
}

}  // namespace

#define VISIBLE [[gnu::visibility("default")]]

VISIBLE void *operator new(size_t size) {
  void *const caller = CALLER;
  return get_or_throw([&] { return get(some(size), caller); });
}
VISIBLE void *operator new[](size_t size) {
  void *const caller = CALLER;
  return get_or_throw([&] { return get(some(size), caller); });
}
VISIBLE void *operator new(size_t size, std::align_val_t alignment) {
  void *const caller = CALLER;
  return get_or_throw([&] { return get_aligned(size_t(alignment), some(size), caller); });
}
VISIBLE void *operator new[](size_t size, std::align_val_t alignment) {
  void *const caller = CALLER;
  return get_or_throw([&] { return get_aligned(size_t(alignment), some(size), caller); });
}
VISIBLE void *operator new(size_t size, const std::nothrow_t &) noexcept {
  return get(some(size), CALLER);
}
VISIBLE void *operator new[](size_t size, const std::nothrow_t &) noexcept {
  return get(some(size), CALLER);
}
VISIBLE void *operator new(size_t size, std::align_val_t alignment,
                           const std::nothrow_t &) noexcept {
  return get_aligned(size_t(alignment), some(size), CALLER);
}
VISIBLE void *operator new[](size_t size, std::align_val_t alignment,
                             const std::nothrow_t &) noexcept {
  return get_aligned(size_t(alignment), some(size), CALLER);
}
VISIBLE void operator delete(void *piece) noexcept {
  let_go(piece);
}
VISIBLE void operator delete[](void *piece) noexcept {
  let_go(piece);
}
VISIBLE void operator delete(void *piece, size_t) noexcept {
  let_go(piece);
}
VISIBLE void operator delete[](void *piece, size_t) noexcept {
  let_go(piece);
}
VISIBLE void operator delete(void *piece, std::align_val_t) noexcept {
  let_go(piece);
}
VISIBLE void operator delete[](void *piece, std::align_val_t) noexcept {
  let_go(piece);
}
VISIBLE void operator delete(void *piece, size_t, std::align_val_t) noexcept {
  let_go(piece);
}
VISIBLE void operator delete[](void *piece, size_t, std::align_val_t) noexcept {
  let_go(piece);
}
VISIBLE void operator delete(void *piece, const std::nothrow_t &) noexcept {
  let_go(piece);
}
VISIBLE void operator delete[](void *piece, const std::nothrow_t &) noexcept {
  let_go(piece);
}
VISIBLE void operator delete(void *piece, std::align_val_t, const std::nothrow_t &) noexcept {
  let_go(piece);
}
VISIBLE void operator delete[](void *piece, std::align_val_t, const std::nothrow_t &) noexcept {
  let_go(piece);
}
