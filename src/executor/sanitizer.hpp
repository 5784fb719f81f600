// executor/sanitizer.hpp: annotations of fibers for ThreadSanitizer and AddressSanitizer.
//
// In TSan builds the executor itself is compiled without -fsanitize=thread and with TND_TSAN. Its
// state belongs to one thread. The order between lanes that kernels may rely on is annotated here,
// edge by edge. A fiber switch implies no order (flag 1), so TSan reports a missing barrier in a
// kernel as a data race.
#pragma once

#include <tanada/device/detail/simt/config.hpp>

#if defined(__SANITIZE_ADDRESS__)
#  define TND_SIMT_ASAN 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define TND_SIMT_ASAN 1
#  endif
#endif

#if defined(TND_TSAN)
extern "C" {
void *__tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void *__tsan_get_current_fiber();
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
}
#endif

#if defined(TND_SIMT_ASAN)
extern "C" {
void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, __SIZE_TYPE__ size);
void __sanitizer_finish_switch_fiber(void *fake_stack,
                                     const void **bottom_old,
                                     __SIZE_TYPE__ *size_old);
}
#endif

// For functions that never return: they would leave the red zones of their frame on a stack that is
// reused.
#if defined(TND_SIMT_ASAN)
#  define TND_NO_ASAN __attribute__((no_sanitize("address")))
#else
#  define TND_NO_ASAN
#endif

namespace tanada::simt::host {

#if defined(TND_TSAN)
inline constexpr bool one_fiber_per_lane = true;  // lanes that share a fiber would appear ordered
inline void acquire_edge(void *key) noexcept {
  __tsan_acquire(key);
}
inline void release_edge(void *key) noexcept {
  __tsan_release(key);
}
#else
inline constexpr bool one_fiber_per_lane = false;
inline void acquire_edge(void *) noexcept {}
inline void release_edge(void *) noexcept {}
#endif

// Copies 64-bit words without TSan observing it; TSan intercepts memcpy.
inline void copy_untraced(u64 *target, const u64 *source, u32 count) noexcept {
#if defined(TND_TSAN)
  for (u32 i = 0; i < count; i++)
    *static_cast<u64 volatile *>(target + i) = source[i];
#else
  __builtin_memcpy(target, source, count * sizeof(u64));
#endif
}

// Attributes the code until the end of the scope to `fiber`, on whatever stack it runs. Only TSan
// builds need it.
class tsan_fiber_scope {
 public:
#if defined(TND_TSAN)
  explicit tsan_fiber_scope(void *fiber) noexcept : outer_{__tsan_get_current_fiber()} {
    __tsan_switch_to_fiber(fiber, 1);
  }
  ~tsan_fiber_scope() {
    __tsan_switch_to_fiber(outer_, 1);
  }

 private:
  void *outer_;
#else
  explicit tsan_fiber_scope(void *) noexcept {}
  ~tsan_fiber_scope() {}
#endif
 public:
  tsan_fiber_scope(const tsan_fiber_scope &) = delete;
};

#if defined(TND_TSAN) || defined(TND_SIMT_ASAN)
inline constexpr u64 stack_growth = 4;  // sanitizers enlarge frames
#else
inline constexpr u64 stack_growth = 1;
#endif

}  // namespace tanada::simt::host
