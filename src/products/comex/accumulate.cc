// accumulate.cc: scaled additions for all element types, and the heap locks around them.
#include "products/comex/accumulate.hpp"

#include <sched.h>

#include <algorithm>
#include <complex>
#include <cstring>

#include "core/base/assert.hpp"
#include "products/comex/deferred_error.hpp"
#include "seams/os/wide_vectors.hpp"

namespace tanada::comex {
namespace {

// Loads a value of any alignment.
template <class T>
T load(const std::byte *address) noexcept {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

// a * b by the plain formula: no special cases for infinities, so that the loop vectorizes.
template <class T>
T product(T a, T b) noexcept {
  return a * b;
}
template <class T>
std::complex<T> product(std::complex<T> a, std::complex<T> b) noexcept {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
// Integers wrap around.
template <>
int32_t product(int32_t a, int32_t b) noexcept {
  return int32_t(uint32_t(a) * uint32_t(b));
}
template <>
int64_t product(int64_t a, int64_t b) noexcept {
  return int64_t(uint64_t(a) * uint64_t(b));
}

template <class T>
T sum(T a, T b) noexcept {
  return a + b;
}
template <>
int32_t sum(int32_t a, int32_t b) noexcept {
  return int32_t(uint32_t(a) + uint32_t(b));
}
template <>
int64_t sum(int64_t a, int64_t b) noexcept {
  return int64_t(uint64_t(a) + uint64_t(b));
}

template <class T>
[[gnu::always_inline]] inline void apply(const void *scale,
                                         std::byte *__restrict target,
                                         const std::byte *__restrict source,
                                         size_t size) noexcept {
  T const factor = load<T>(static_cast<const std::byte *>(scale));
  bool const is_one = factor == T(1);
  size_t const count = size / sizeof(T);
  auto const run = [&](auto &&value_of) {
    for (size_t i = 0; i < count; i++) {
      T value = value_of(load<T>(source + i * sizeof(T)));
      value = sum(load<T>(target + i * sizeof(T)), value);
      std::memcpy(target + i * sizeof(T), &value, sizeof value);
    }
  };
  if (is_one)
    run([](T value) { return value; });
  else
    run([factor](T value) { return product(factor, value); });
}

[[gnu::always_inline]] inline void apply_any(element type,
                                             const void *scale,
                                             std::byte *target,
                                             const std::byte *source,
                                             size_t size) noexcept {
  switch (type) {
    case element::i32:
      return apply<int32_t>(scale, target, source, size);
    case element::i64:
      return apply<int64_t>(scale, target, source, size);
    case element::f32:
      return apply<float>(scale, target, source, size);
    case element::f64:
      return apply<double>(scale, target, source, size);
    case element::c64:
      return apply<std::complex<float>>(scale, target, source, size);
    case element::c128:
      return apply<std::complex<double>>(scale, target, source, size);
  }
}

// Uses vectors of 32 bytes and runs twice as fast. Products are rounded before they are added, as
// in the scalar code.
TND_WIDE_VECTORS void apply_wide(element type,
                                 const void *scale,
                                 std::byte *target,
                                 const std::byte *source,
                                 size_t size) noexcept {
  apply_any(type, scale, target, source, size);
}

}  // namespace

size_t element_size(element type) noexcept {
  switch (type) {
    case element::i32:
    case element::f32:
      return 4;
    case element::c128:
      return 16;
    default:
      return 8;
  }
}

void add_scaled(element type,
                const void *scale,
                std::byte *target,
                const std::byte *source,
                size_t size) noexcept {
  if (seams::has_wide_vectors())
    apply_wide(type, scale, target, source, size);
  else
    apply_any(type, scale, target, source, size);
}

void add_atomically(element type,
                    const void *scale,
                    std::byte *target,
                    const std::byte *source,
                    size_t size) noexcept {
  auto const run = [&]<class T>(T factor) {
    std::memcpy(&factor, scale, sizeof factor);
    for (size_t i = 0; i < size; i += sizeof(T)) {
      __atomic_fetch_add(
          reinterpret_cast<T *>(target + i), factor * load<T>(source + i), __ATOMIC_RELAXED);
    }
  };
  bool const is_aligned = reinterpret_cast<uintptr_t>(target) % element_size(type) == 0;
  if (is_aligned && type == element::i32)
    return run(uint32_t{});
  if (is_aligned && type == element::i64)
    return run(uint64_t{});
  add_scaled(type, scale, target, source, size);
}

// The holder adds one piece, which takes a few microseconds. A holder that was preempted meanwhile
// gets our processor by the yield.
status heap_locks::guard::acquire(lock_word *target_lock) noexcept {
  constexpr uint32_t spin_count = 200, yields_between_checks = 1000;
  for (uint32_t round = 1;; round++) {
    uint32_t expected = 0;
    if (__atomic_compare_exchange_n(
            &target_lock->is_held, &expected, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      break;
    for (uint32_t i = 0;
         i < spin_count && __atomic_load_n(&target_lock->is_held, __ATOMIC_RELAXED) != 0;
         i++)
      seams::spin_pause();
    if (__atomic_load_n(&target_lock->is_held, __ATOMIC_RELAXED) != 0)
      sched_yield();
    if (round % yields_between_checks == 0) {
      if (auto const lost_pe = job_.failed_pe(); lost_pe >= 0)
        return set_error(
            status::peer_lost, "process {} died, possibly during an accumulate", lost_pe);
    }
  }
  TND_ASSERT(held_ == nullptr);
  held_ = target_lock;
  return status::ok;
}

status add_under_locks(heap_locks::guard &guard,
                       const heap_view &heap,
                       size_t offset,
                       const addend &operands,
                       const std::byte *source,
                       size_t size) {
  TND_ASSERT(heap.begin != nullptr && heap.locks != nullptr);
  TND_ASSERT(size % element_size(operands.type) == 0);
  for (size_t done = 0; done < size;) {
    size_t const position = offset + done, piece = heap_locks::piece_size,
                 element = element_size(operands.type);
    // An element that spans two pieces belongs to the first.
    size_t const part_max = (piece - position % piece + element - 1) / element * element,
                 part = std::min(size - done, part_max);
    TND_TRY(guard.lock(heap.locks, position));
    (heap.has_atomics ? add_atomically : add_scaled)(
        operands.type, operands.scale, heap.begin + position, source + done, part);
    done += part;
  }
  return status::ok;
}

}  // namespace tanada::comex
