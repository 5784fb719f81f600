// products/shmem/collectives/reduction.hpp: functions that combine two elements, for each type. The
// algorithms see untyped elements and such a function.
#pragma once

#include <complex>
#include <cstddef>

namespace tanada::shmem {

// Computes target[i] = target[i] op source[i]. The arrays are the same or do not overlap, and are
// aligned to the element.
struct reduction {
  size_t size;  // bytes of an element
  void (*combine)(void *target, const void *source, size_t count);
};

enum class scan_kind { inclusive, exclusive };

struct bit_and {
  template <class T>
  static T apply(T lhs, T rhs) {
    return T(lhs & rhs);
  }
};
struct bit_or {
  template <class T>
  static T apply(T lhs, T rhs) {
    return T(lhs | rhs);
  }
};
struct bit_xor {
  template <class T>
  static T apply(T lhs, T rhs) {
    return T(lhs ^ rhs);
  }
};
struct maximum {
  template <class T>
  static T apply(T lhs, T rhs) {
    return lhs < rhs ? rhs : lhs;
  }
};
struct minimum {
  template <class T>
  static T apply(T lhs, T rhs) {
    return rhs < lhs ? rhs : lhs;
  }
};

// The type in which integers, including signed ones, wrap around.
template <class T>
using wrapping = typename std::conditional_t<
    std::is_integral_v<T>,
    std::make_unsigned<std::conditional_t<std::is_integral_v<T>, T, int>>,
    std::type_identity<T>>::type;
struct sum {
  template <class T>
  static T apply(T lhs, T rhs) {
    return T(wrapping<T>(lhs) + wrapping<T>(rhs));
  }
};
struct product {
  // Small integers are widened to unsigned, because products of promoted ints would overflow.
  template <class T>
  static T apply(T lhs, T rhs) {
    if constexpr (std::is_integral_v<T>) {
      return T(1u * wrapping<T>(lhs) * wrapping<T>(rhs));
    } else {
      return lhs * rhs;
    }
  }
};

template <class T, class Operation>
void combine(void *target_array, const void *source_array, size_t count) {
  auto *const target = static_cast<T *>(target_array);
  auto const *const source = static_cast<const T *>(source_array);
  for (size_t i = 0; i < count; i++) {
    target[i] = Operation::apply(target[i], source[i]);
  }
}

template <class T, class Operation>
inline constexpr reduction reduction_of{sizeof(T), &combine<T, Operation>};

}  // namespace tanada::shmem
