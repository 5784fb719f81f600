// core/base/checked.hpp: arithmetic on sizes and offsets that come from outside. False, and `sum`
// or `product` unspecified, when the exact value does not fit.
#pragma once

#include <concepts>

namespace tanada {

template <std::unsigned_integral T>
[[nodiscard]] constexpr bool checked_add(T left, T right, T &sum) noexcept {
  return !__builtin_add_overflow(left, right, &sum);
}

template <std::unsigned_integral T>
[[nodiscard]] constexpr bool checked_multiply(T left, T right, T &product) noexcept {
  return !__builtin_mul_overflow(left, right, &product);
}

// `value` rounded up to a multiple of `alignment`, a power of two.
template <std::unsigned_integral T>
[[nodiscard]] constexpr bool checked_align_up(T value, T alignment, T &aligned) noexcept {
  if (!checked_add(value, T(alignment - 1), aligned))
    return false;
  aligned &= T(~(alignment - 1));
  return true;
}

// [offset, offset + size) lies within [0, limit).
template <std::unsigned_integral T>
[[nodiscard]] constexpr bool range_fits(T offset, T size, T limit) noexcept {
  return size <= limit && offset <= limit - size;
}

}  // namespace tanada
