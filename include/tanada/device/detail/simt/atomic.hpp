// tanada/device/detail/simt/atomic.hpp: atomics that compile to scoped PTX under nvcc and NVRTC
// (12.8 or newer), and to __atomic_* under gcc and clang, where TSan sees them.
//
// There is one function for each memory order, because nvcc's builtins require literal orders. The
// only fence is fence_system(): GCC's TSan does not model fences, so orders are on the accesses.
#pragma once

#include "config.hpp"

#if !TND_SIMT_CUDA
namespace tanada::simt::host {
struct lane_ids;
extern TND_HOST_API __thread const lane_ids *current_ids [[gnu::tls_model("initial-exec")]];
TND_HOST_API void pause() noexcept;
TND_HOST_API void pause_for_host() noexcept;
TND_HOST_API void wake_host() noexcept;
TND_HOST_API void preemption_point() noexcept;
}  // namespace tanada::simt::host
// Outside a kernel, where host code uses atomics on its fast path, this is one load.
#  define TND_PREEMPTION_POINT()                                                             \
    (::tanada::simt::host::current_ids != nullptr ? ::tanada::simt::host::preemption_point() \
                                                  : (void)0)
#else
#  define TND_PREEMPTION_POINT() ((void)0)
#endif

namespace tanada::simt {

// The accessing threads: only those of the device, or also those of the host.
enum class scope { device, system };

#if TND_ON_DEVICE
#  define TND_ATOMIC(function, ...)                           \
    if constexpr (Scope == scope::system)                     \
      return function(__VA_ARGS__, __NV_THREAD_SCOPE_SYSTEM); \
    else                                                      \
      return function(__VA_ARGS__, __NV_THREAD_SCOPE_DEVICE)
#  define TND_LOAD(order) \
    { TND_ATOMIC(__nv_atomic_load_n, addr, __NV_ATOMIC_##order); }
#  define TND_STORE(order) \
    { TND_ATOMIC(__nv_atomic_store_n, addr, value, __NV_ATOMIC_##order); }
#  define TND_RMW(name, order) \
    { TND_ATOMIC(__nv_atomic_##name, addr, value, __NV_ATOMIC_##order); }
#  define TND_CAS(order, failure)                \
    {                                            \
      TND_ATOMIC(__nv_atomic_compare_exchange_n, \
                 addr,                           \
                 &expected,                      \
                 desired,                        \
                 false,                          \
                 __NV_ATOMIC_##order,            \
                 __NV_ATOMIC_##failure);         \
    }
#else
#  define TND_LOAD(order)                             \
    {                                                 \
      TND_PREEMPTION_POINT();                         \
      return __atomic_load_n(addr, __ATOMIC_##order); \
    }
#  define TND_STORE(order)                             \
    {                                                  \
      TND_PREEMPTION_POINT();                          \
      __atomic_store_n(addr, value, __ATOMIC_##order); \
    }
#  define TND_RMW(name, order)                               \
    {                                                        \
      TND_PREEMPTION_POINT();                                \
      return __atomic_##name(addr, value, __ATOMIC_##order); \
    }
#  define TND_CAS(order, failure)                                                 \
    {                                                                             \
      TND_PREEMPTION_POINT();                                                     \
      return __atomic_compare_exchange_n(                                         \
          addr, &expected, desired, false, __ATOMIC_##order, __ATOMIC_##failure); \
    }
#endif

template <class T, scope Scope>
struct atomic_ref {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  T *addr;

  TND_HD explicit atomic_ref(T &object) : addr(&object) {}

  TND_HD T load_relaxed() const TND_LOAD(RELAXED) TND_HD T load_acquire() const
      TND_LOAD(ACQUIRE) TND_HD void store_relaxed(T value) const TND_STORE(RELAXED) TND_HD
      void store_release(T value) const TND_STORE(RELEASE)
  // A release store whose fence the caller has just issued with fence_system().
#if TND_ON_DEVICE
          TND_HD void store_release_after_fence(T value) const {
    store_relaxed(value);
  }
#else
          TND_HD void store_release_after_fence(T value) const {
    store_release(value);
  }
#endif
  TND_HD T exchange_relaxed(T value) const TND_RMW(exchange_n, RELAXED) TND_HD T
      exchange_acq_rel(T value) const TND_RMW(exchange_n, ACQ_REL) TND_HD T
      fetch_add_relaxed(T value) const TND_RMW(fetch_add, RELAXED) TND_HD T
      fetch_add_acquire(T value) const TND_RMW(fetch_add, ACQUIRE) TND_HD T
      fetch_add_release(T value) const TND_RMW(fetch_add, RELEASE)
  // As store_release_after_fence().
#if TND_ON_DEVICE
          TND_HD T fetch_add_release_after_fence(T value) const {
    return fetch_add_relaxed(value);
  }
#else
          TND_HD T fetch_add_release_after_fence(T value) const {
    return fetch_add_release(value);
  }
#endif
  TND_HD T fetch_add_acq_rel(T value) const TND_RMW(fetch_add, ACQ_REL) TND_HD T
      fetch_or_relaxed(T value) const TND_RMW(fetch_or, RELAXED) TND_HD T
      fetch_or_acquire(T value) const TND_RMW(fetch_or, ACQUIRE) TND_HD T
      fetch_or_acq_rel(T value) const TND_RMW(fetch_or, ACQ_REL) TND_HD T
      fetch_and_relaxed(T value) const TND_RMW(fetch_and, RELAXED) TND_HD T
      fetch_and_acq_rel(T value) const TND_RMW(fetch_and, ACQ_REL) TND_HD T
      fetch_and_release(T value) const TND_RMW(fetch_and, RELEASE) TND_HD T
      fetch_xor_relaxed(T value) const TND_RMW(fetch_xor, RELAXED)
      // Returns true if `expected` was replaced by `desired`. Otherwise `expected` receives the
      // current value.
      TND_HD bool compare_exchange_acq_rel(T &expected, T desired) const
      TND_CAS(ACQ_REL, ACQUIRE) TND_HD bool compare_exchange_relaxed(T &expected, T desired) const
      TND_CAS(RELAXED, RELAXED) TND_HD bool compare_exchange_acquire(T &expected, T desired) const
      TND_CAS(ACQUIRE, ACQUIRE)
};

// Add to a word that the caller knows to be in global memory; relaxed, system scope. A word with an
// unknown address space may be in shared memory. The hardware then waits for each atomic to learn
// whether it was performed, even if its result is unused.
template <class T>
TND_HD inline T fetch_add_global(T *addr, T value) {
#if TND_ON_DEVICE
  T before;
  if constexpr (sizeof(T) == 4)
    asm volatile("atom.relaxed.sys.global.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(__cvta_generic_to_global(addr)), "r"(value)
                 : "memory");
  else
    asm volatile("atom.relaxed.sys.global.add.u64 %0, [%1], %2;"
                 : "=l"(before)
                 : "l"(__cvta_generic_to_global(addr)), "l"(value)
                 : "memory");
  return before;
#else
  return atomic_ref<T, scope::system>(*addr).fetch_add_relaxed(value);
#endif
}
template <class T>
TND_HD inline void add_global(T *addr, T value) {
#if TND_ON_DEVICE
  if constexpr (sizeof(T) == 4)
    asm volatile("red.relaxed.sys.global.add.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(addr)),
                 "r"(value)
                 : "memory");
  else
    asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(addr)),
                 "l"(value)
                 : "memory");
#else
  (void)atomic_ref<T, scope::system>(*addr).fetch_add_relaxed(value);
#endif
}

// For loops that wait for a word that the caller knows to be in global memory. After the load that
// ends the wait, acquire_watched() makes it an acquire. An acquire for each load would empty the
// multiprocessor's cache each time.
template <class T>
TND_HD inline T watch_global(const T *addr) {
#if TND_ON_DEVICE
  T value;
  if constexpr (sizeof(T) == 4)
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(__cvta_generic_to_global(addr))
                 : "memory");
  else
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];"
                 : "=l"(value)
                 : "l"(__cvta_generic_to_global(addr))
                 : "memory");
  return value;
#else
  return atomic_ref<T, scope::system>(*const_cast<T *>(addr)).load_acquire();
#endif
}
TND_HD inline void acquire_watched() {
#if TND_ON_DEVICE && __CUDA_ARCH__ >= 900
  asm volatile("fence.acquire.sys;" ::: "memory");
#elif TND_ON_DEVICE
  asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

struct word_pair {
  u64 first, second;
};

// Load two words of global memory at a 16-byte boundary together; relaxed. Among threads of the
// device, both are of one moment. Where the host writes them (scope::system), each word is whole,
// but one may be older than the other.
template <scope Scope>
TND_HD inline word_pair load_pair(u64 (&words)[2]) {
#if TND_ON_DEVICE
  word_pair pair;
  if constexpr (Scope == scope::system)
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(pair.first), "=l"(pair.second)
                 : "l"(__cvta_generic_to_global(&words[0]))
                 : "memory");
  else
    asm volatile(
        "{ .reg .b128 both; ld.relaxed.gpu.global.b128 both, [%2]; mov.b128 {%0, %1}, both; }"
        : "=l"(pair.first), "=l"(pair.second)
        : "l"(__cvta_generic_to_global(&words[0]))
        : "memory");
  return pair;
#else
  atomic_ref<u64, Scope> const first(words[0]), second(words[1]);
  for (u64 before = second.load_acquire();;) {
    word_pair const pair{first.load_acquire(), before};
    u64 const after = second.load_relaxed();
    if (after == before)
      return pair;
    before = after;
  }
#endif
}

// As load_pair(), for words that the host writes, with acquire: what the host wrote before them is
// visible afterwards.
TND_HD inline word_pair load_pair_acquire(u64 (&words)[2]) {
#if TND_ON_DEVICE
  word_pair pair;
  asm volatile("ld.acquire.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(pair.first), "=l"(pair.second)
               : "l"(__cvta_generic_to_global(&words[0]))
               : "memory");
  return pair;
#else
  atomic_ref<u64, scope::system> const first(words[0]), second(words[1]);
  u64 const later = second.load_acquire();
  return {first.load_acquire(), later};
#endif
}

// Store two words for the host, each whole; relaxed.
TND_HD inline void store_pair(u64 (&words)[2], word_pair value) {
#if TND_ON_DEVICE
  asm volatile(
      "st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(&words[0])),
      "l"(value.first),
      "l"(value.second)
      : "memory");
#else
  atomic_ref<u64, scope::system>(words[0]).store_relaxed(value.first);
  atomic_ref<u64, scope::system>(words[1]).store_relaxed(value.second);
#endif
}

#undef TND_ATOMIC
#undef TND_LOAD
#undef TND_STORE
#undef TND_RMW
#undef TND_CAS

template <class T>
using device_atomic = atomic_ref<T, scope::device>;
template <class T>
using system_atomic = atomic_ref<T, scope::system>;

// As atomic_ref, for a word that the caller knows to be in global memory. Of any other word the
// compiler must assume that it may be in shared memory, where atomics are loops. For additions of 8
// bytes it assumes this even here, and then each of them is waited for; so they are spelled out.
template <class T, scope Scope>
struct global_ref : atomic_ref<T, Scope> {
  TND_HD explicit global_ref(T &object) : atomic_ref<T, Scope>(object) {
#if TND_ON_DEVICE
    __builtin_assume(__isGlobal(&object));
#endif
  }
#if TND_ON_DEVICE
#  define TND_GLOBAL_RMW(name, operation, type, order)                                   \
    TND_HD T name##_##order(T value) const {                                             \
      if constexpr (sizeof(T) == 4) {                                                    \
        return atomic_ref<T, Scope>::name##_##order(value);                              \
      } else {                                                                           \
        T before;                                                                        \
        if constexpr (Scope == scope::system)                                            \
          asm volatile("atom." #order ".sys.global." operation "." type " %0, [%1], %2;" \
                       : "=l"(before)                                                    \
                       : "l"(__cvta_generic_to_global(this->addr)), "l"(value)           \
                       : "memory");                                                      \
        else                                                                             \
          asm volatile("atom." #order ".gpu.global." operation "." type " %0, [%1], %2;" \
                       : "=l"(before)                                                    \
                       : "l"(__cvta_generic_to_global(this->addr)), "l"(value)           \
                       : "memory");                                                      \
        return before;                                                                   \
      }                                                                                  \
    }
  TND_GLOBAL_RMW(fetch_add, "add", "u64", relaxed)
  TND_GLOBAL_RMW(fetch_add, "add", "u64", acquire)
  TND_GLOBAL_RMW(fetch_add, "add", "u64", release)
  TND_GLOBAL_RMW(fetch_or, "or", "b64", acquire)
  TND_GLOBAL_RMW(fetch_or, "or", "b64", acq_rel)
  TND_HD T fetch_add_release_after_fence(T value) const {
    return fetch_add_relaxed(value);
  }
#  undef TND_GLOBAL_RMW
#endif
};
template <class T>
using device_word = global_ref<T, scope::device>;
template <class T>
using system_word = global_ref<T, scope::system>;

// Called in every spin loop, on the device and on the host.
TND_HD inline void pause(u32 duration_ns = 64) {
#if TND_ON_DEVICE
  __nanosleep(duration_ns);
#elif TND_SIMT_CUDA
  (void)duration_ns;  // host code of a CUDA translation unit
#  if defined(__x86_64__)
  __builtin_ia32_pause();
#  elif defined(__aarch64__)
  asm volatile("yield");
#  endif
#else
  (void)duration_ns;
  host::pause();
#endif
}

// For loops that wait for an answer of the host: on the device, no pause in the first
// `free_rounds`.
TND_HD inline void pause_for_host(u32 round, u32 free_rounds, u32 duration_ns) {
#if TND_ON_DEVICE
  if (round >= free_rounds)
    __nanosleep(duration_ns);
#elif TND_SIMT_CUDA
  (void)round;
  (void)free_rounds;
  pause(duration_ns);
#else
  (void)round;
  (void)free_rounds;
  (void)duration_ns;
  host::pause_for_host();
#endif
}

// Called after a request to the host was stored. The host polls the memory that it shares with a
// GPU, but threads that serve the host executor may sleep.
TND_HD inline void wake_host() {
#if !TND_SIMT_CUDA
  host::wake_host();
#endif
}

// For loops that wait for another device, whose answer takes a microsecond: no pause at first.
// `round` starts at 0.
TND_HD inline void pause_late(u32 round) {
#if TND_ON_DEVICE
  if (round >= 4096)
    __nanosleep(64);
#else
  (void)round;
  pause();
#endif
}

}  // namespace tanada::simt
