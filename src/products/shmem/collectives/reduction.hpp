// products/shmem/collectives/reduction.hpp: what two elements become one by, for each type.
// Algorithms see untyped elements and a function.
#pragma once

#include <complex>
#include <cstddef>

namespace tanada::shmem {

// into[i] = into[i] op with[i]. The two are the same array or do not overlap; both aligned to the
// element.
struct reduction {
  size_t size;  // bytes of an element
  void (*combine)(void *into, const void *with, size_t count);
};

enum class scan_kind { inclusive, exclusive };

struct bit_and {
  template <class T>
  static T of(T one, T other) {
    return T(one & other);
  }
};
struct bit_or {
  template <class T>
  static T of(T one, T other) {
    return T(one | other);
  }
};
struct bit_xor {
  template <class T>
  static T of(T one, T other) {
    return T(one ^ other);
  }
};
struct maximum {
  template <class T>
  static T of(T one, T other) {
    return one < other ? other : one;
  }
};
struct minimum {
  template <class T>
  static T of(T one, T other) {
    return other < one ? other : one;
  }
};

// Integers wrap around, signed ones too.
template <class T>
using wrapping =
    std::conditional_t<std::is_integral_v<T>,
                       std::make_unsigned<std::conditional_t<std::is_integral_v<T>, T, int>>,
                       std::type_identity<T>>::type;
struct sum {
  template <class T>
  static T of(T one, T other) {
    return T(wrapping<T>(one) + wrapping<T>(other));
  }
};
struct product {
  // The factors of small integers are widened to unsigned, as those of int would overflow.
  template <class T>
  static T of(T one, T other) {
    if constexpr (std::is_integral_v<T>) {
      return T(1u * wrapping<T>(one) * wrapping<T>(other));
    } else {
      return one * other;
    }
  }
};

template <class T, class Operation>
void combine(void *into, const void *with, size_t count) {
  auto *const target = static_cast<T *>(into);
  auto const *const source = static_cast<const T *>(with);
  for (size_t i = 0; i < count; i++)
    target[i] = Operation::of(target[i], source[i]);
}

template <class T, class Operation>
inline constexpr reduction reduction_of{sizeof(T), &combine<T, Operation>};

}  // namespace tanada::shmem
