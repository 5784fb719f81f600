// device_atomics.h: CUDA's atomic functions, for the host executor: relaxed, of system scope. Not
// for direct inclusion.
#pragma once

namespace tanada::cuda {

// Replaces a value by a function of it, and returns the old value.
template <class T, class Change>
inline T update(T *addr, Change change) {
  simt::host::preemption_point();
  T old = __atomic_load_n(addr, __ATOMIC_RELAXED), value = change(old);
  while (!__atomic_compare_exchange(addr, &old, &value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    value = change(old);
  return old;
}
// As update(), for numbers that processors have no atomic operations for.
template <class Word, class T, class Change>
inline T update_as(T *addr, Change change) {
  static_assert(sizeof(Word) == sizeof(T));
  auto const number = [](Word word) {
    T value;
    __builtin_memcpy(&value, &word, sizeof value);
    return value;
  };
  return number(update(reinterpret_cast<Word *>(addr), [&](Word word) {
    T const value = change(number(word));
    __builtin_memcpy(&word, &value, sizeof word);
    return word;
  }));
}

}  // namespace tanada::cuda

#define TND_CUDA_ATOMIC_(NAME, SCOPE, TYPE, ...)                                                   \
  inline TYPE NAME##SCOPE(TYPE *addr, TYPE operand) {                                              \
    return ::tanada::cuda::update(addr,                                                            \
                                  [=]([[maybe_unused]] TYPE old) -> TYPE { return __VA_ARGS__; }); \
  }
#define TND_CUDA_ATOMICS_OF_(SCOPE, TYPE)                                     \
  TND_CUDA_ATOMIC_(atomicAdd, SCOPE, TYPE, static_cast<TYPE>(old + operand))  \
  TND_CUDA_ATOMIC_(atomicExch, SCOPE, TYPE, operand)                          \
  TND_CUDA_ATOMIC_(atomicMin, SCOPE, TYPE, operand < old ? operand : old)     \
  TND_CUDA_ATOMIC_(atomicMax, SCOPE, TYPE, old < operand ? operand : old)     \
  TND_CUDA_ATOMIC_(atomicAnd, SCOPE, TYPE, static_cast<TYPE>(old & operand))  \
  TND_CUDA_ATOMIC_(atomicOr, SCOPE, TYPE, static_cast<TYPE>(old | operand))   \
  TND_CUDA_ATOMIC_(atomicXor, SCOPE, TYPE, static_cast<TYPE>(old ^ operand))  \
  inline TYPE atomicCAS##SCOPE(TYPE *addr, TYPE compare, TYPE operand) {      \
    ::tanada::simt::host::preemption_point();                                 \
    (void)__atomic_compare_exchange(                                          \
        addr, &compare, &operand, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
    return compare;                                                           \
  }
#define TND_CUDA_ATOMICS_(SCOPE)                                                                \
  TND_CUDA_ATOMICS_OF_(SCOPE, int)                                                              \
  TND_CUDA_ATOMICS_OF_(SCOPE, unsigned)                                                         \
  TND_CUDA_ATOMICS_OF_(SCOPE, long)                                                             \
  TND_CUDA_ATOMICS_OF_(SCOPE, unsigned long)                                                    \
  TND_CUDA_ATOMICS_OF_(SCOPE, long long)                                                        \
  TND_CUDA_ATOMICS_OF_(SCOPE, unsigned long long)                                               \
  TND_CUDA_ATOMIC_(atomicSub, SCOPE, int, old - operand)                                        \
  TND_CUDA_ATOMIC_(atomicSub, SCOPE, unsigned, old - operand)                                   \
  TND_CUDA_ATOMIC_(atomicInc, SCOPE, unsigned, old >= operand ? 0 : old + 1)                    \
  TND_CUDA_ATOMIC_(atomicDec, SCOPE, unsigned, old == 0 || old > operand ? operand : old - 1)   \
  inline float atomicAdd##SCOPE(float *addr, float operand) {                                   \
    return ::tanada::cuda::update_as<unsigned>(addr, [=](float old) { return old + operand; }); \
  }                                                                                             \
  inline double atomicAdd##SCOPE(double *addr, double operand) {                                \
    return ::tanada::cuda::update_as<unsigned long>(addr,                                       \
                                                    [=](double old) { return old + operand; }); \
  }                                                                                             \
  inline float atomicExch##SCOPE(float *addr, float operand) {                                  \
    return ::tanada::cuda::update_as<unsigned>(addr, [=](float) { return operand; });           \
  }

TND_CUDA_ATOMICS_()
TND_CUDA_ATOMICS_(_system)
TND_CUDA_ATOMICS_(_block)

#undef TND_CUDA_ATOMIC_
#undef TND_CUDA_ATOMICS_OF_
#undef TND_CUDA_ATOMICS_
