#include "comex/accumulate.hpp"

#include <sched.h>

#include <complex>
#include <cstring>

#include "comex/refusal.hpp"

namespace tanada::comex {
namespace {

// Values of a type that lie anywhere.
template <class T>
T load(const std::byte *at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// a * b as mathematics has it: no detour for infinities, so that it vectorises.
template <class T>
T product(T a, T b) noexcept {
  return a * b;
}
template <class T>
std::complex<T> product(std::complex<T> a, std::complex<T> b) noexcept {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
// Integers wrap.
template <>
int32_t product(int32_t a, int32_t b) noexcept { return int32_t(uint32_t(a) * uint32_t(b)); }
template <>
int64_t product(int64_t a, int64_t b) noexcept { return int64_t(uint64_t(a) * uint64_t(b)); }

template <class T>
T sum(T a, T b) noexcept {
  return a + b;
}
template <>
int32_t sum(int32_t a, int32_t b) noexcept { return int32_t(uint32_t(a) + uint32_t(b)); }
template <>
int64_t sum(int64_t a, int64_t b) noexcept { return int64_t(uint64_t(a) + uint64_t(b)); }

template <class T, bool Adds>
void apply(const void *scale, std::byte *__restrict target, const std::byte *__restrict source, size_t size) noexcept {
  T const factor = load<T>(static_cast<const std::byte *>(scale));
  bool const is_one = factor == T(1);
  size_t const count = size / sizeof(T);
  auto const run = [&](auto &&value_of) {
    for (size_t i = 0; i < count; i++) {
      T value = value_of(load<T>(source + i * sizeof(T)));
      if constexpr (Adds) value = sum(load<T>(target + i * sizeof(T)), value);
      std::memcpy(target + i * sizeof(T), &value, sizeof value);
    }
  };
  if (is_one) run([](T value) { return value; });
  else run([factor](T value) { return product(factor, value); });
}

template <bool Adds>
void apply(element of, const void *scale, std::byte *target, const std::byte *source, size_t size) noexcept {
  switch (of) {
    case element::i32: return apply<int32_t, Adds>(scale, target, source, size);
    case element::i64: return apply<int64_t, Adds>(scale, target, source, size);
    case element::f32: return apply<float, Adds>(scale, target, source, size);
    case element::f64: return apply<double, Adds>(scale, target, source, size);
    case element::c64: return apply<std::complex<float>, Adds>(scale, target, source, size);
    case element::c128: return apply<std::complex<double>, Adds>(scale, target, source, size);
  }
}

}  // namespace

size_t element_size(element of) noexcept {
  switch (of) {
    case element::i32:
    case element::f32: return 4;
    case element::c128: return 16;
    default: return 8;
  }
}

port::fabric_element fabric_element_of(element of) noexcept {
  using enum port::fabric_element;
  switch (of) {
    case element::i32: return u32;
    case element::i64: return u64;
    case element::f32: return f32;
    case element::f64: return f64;
    case element::c64: return c64;
    case element::c128: return c128;
  }
  return u64;
}

void add_scaled(element of, const void *scale, std::byte *target, const std::byte *source, size_t size) noexcept {
  apply<true>(of, scale, target, source, size);
}

void copy_scaled(element of, const void *scale, std::byte *target, const std::byte *source, size_t size) noexcept {
  apply<false>(of, scale, target, source, size);
}

// The holder adds up a piece, some microseconds; one that the system has stopped in between gets our processor.
status heap_locks::hold::acquire(word *wanted) noexcept {
  constexpr uint32_t looks = 200, yields_between_checks = 1000;
  for (uint32_t round = 1;; round++) {
    uint32_t expected = 0;
    if (__atomic_compare_exchange_n(&wanted->is_held, &expected, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) break;
    for (uint32_t i = 0; i < looks && __atomic_load_n(&wanted->is_held, __ATOMIC_RELAXED) != 0; i++) port::spin_pause();
    if (__atomic_load_n(&wanted->is_held, __ATOMIC_RELAXED) != 0) sched_yield();
    if (round % yields_between_checks == 0) {
      if (auto const gone = job_.lost(); gone >= 0) return refuse(status::peer_lost, "process %d has died, maybe while it added", gone);
    }
  }
  held_ = wanted;
  return status::ok;
}

}  // namespace tanada::comex
