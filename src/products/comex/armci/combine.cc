#include "products/comex/armci/combine.hpp"

#include <cstring>
#include <type_traits>

#include <compat/comex/message.h>

namespace tanada::comex::armci {
namespace {

template <class T>
T wrapping(T a, T b, bool is_sum) noexcept {
  if constexpr (std::is_integral_v<T>) {
    using bits = std::make_unsigned_t<T>;
    return is_sum ? T(bits(a) + bits(b)) : T(bits(a) * bits(b));
  } else {
    return is_sum ? a + b : a * b;
  }
}

template <class T, operation What>
T combined(T a, T b) noexcept {
  if constexpr (What == operation::sum || What == operation::product)
    return wrapping(a, b, What == operation::sum);
  else if constexpr (What == operation::max)
    return a < b ? b : a;
  else if constexpr (What == operation::min)
    return b < a ? b : a;
  else if constexpr (What == operation::logical_and)
    return T(a != T{} && b != T{});
  else if constexpr (What == operation::logical_or)
    return T(a != T{} || b != T{});
  else if constexpr (What == operation::bit_and)
    return T(a & b);
  else
    return T(a | b);
}

template <class T, operation What, bool IsBehind>
void run(std::byte *__restrict into, const std::byte *__restrict from, size_t count) noexcept {
  for (size_t i = 0; i < count; i++) {
    T a, b;
    std::memcpy(&a, into + i * sizeof a, sizeof a);
    std::memcpy(&b, from + i * sizeof b, sizeof b);
    a = IsBehind ? combined<T, What>(b, a) : combined<T, What>(a, b);
    std::memcpy(into + i * sizeof a, &a, sizeof a);
  }
}

template <class T, bool IsBehind>
combine_run run_of(operation what) noexcept {
  switch (what) {
    case operation::sum: return run<T, operation::sum, IsBehind>;
    case operation::product: return run<T, operation::product, IsBehind>;
    case operation::max: return run<T, operation::max, IsBehind>;
    case operation::min: return run<T, operation::min, IsBehind>;
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (what) {
      case operation::logical_and: return run<T, operation::logical_and, IsBehind>;
      case operation::logical_or: return run<T, operation::logical_or, IsBehind>;
      case operation::bit_and: return run<T, operation::bit_and, IsBehind>;
      default: return run<T, operation::bit_or, IsBehind>;
    }
  }
  return nullptr;
}

}  // namespace

combination combination_of(operation what, int type) noexcept {
  uint32_t const id = (uint32_t(type) & 0xffff) | uint32_t(what) << 16;
  auto const made = [&]<class T>(T) {
    return combination{run_of<T, false>(what), run_of<T, true>(what), sizeof(T), id};
  };
  switch (type) {
    case ARMCI_INT: return made(int{});
    case ARMCI_LONG: return made(long{});
    case ARMCI_LONG_LONG: return made(0LL);
    case ARMCI_FLOAT: return made(float{});
    default: return made(double{});
  }
}

}  // namespace tanada::comex::armci
