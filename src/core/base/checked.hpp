// core/base/checked.hpp: overflow-checked arithmetic on untrusted sizes and offsets. They return
// false, and leave `sum` or `product` unspecified, if the exact value does not fit.
#pragma once

#include <concepts>

namespace tanada {

template <std::unsigned_integral T>
[[nodiscard]] constexpr bool checked_add(T first, T second, T &sum) noexcept {
  return !__builtin_add_overflow(first, second, &sum);
}

template <std::unsigned_integral T>
[[nodiscard]] constexpr bool checked_multiply(T first, T second, T &product) noexcept {
  return !__builtin_mul_overflow(first, second, &product);
}

// `value` rounded up to a multiple of `alignment`, a power of two.
template <std::unsigned_integral T>
[[nodiscard]] constexpr bool checked_align_up(T value, T alignment, T &aligned) noexcept {
  if (!checked_add(value, T(alignment - 1), aligned))
    return false;
  aligned &= T(~(alignment - 1));
  return true;
}

// Whether [offset, offset + size) lies within [0, limit).
template <std::unsigned_integral T>
[[nodiscard]] constexpr bool range_fits(T offset, T size, T limit) noexcept {
  return size <= limit && offset <= limit - size;
}

}  // namespace tanada
