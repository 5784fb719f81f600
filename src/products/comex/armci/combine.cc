// products/comex/armci/combine.cc: element-wise operations of reductions.
#include "products/comex/armci/combine.hpp"

#include <cstring>
#include <type_traits>

#include <compat/comex/message.h>

namespace tanada::comex::armci {
namespace {

template <class T>
T wrapping_result(T a, T b, bool is_sum) noexcept {
  if constexpr (std::is_integral_v<T>) {
    using bits = std::make_unsigned_t<T>;
    return is_sum ? T(bits(a) + bits(b)) : T(bits(a) * bits(b));
  } else {
    return is_sum ? a + b : a * b;
  }
}

template <class T, operation Operation>
T combined_value(T a, T b) noexcept {
  if constexpr (Operation == operation::sum || Operation == operation::product)
    return wrapping_result(a, b, Operation == operation::sum);
  else if constexpr (Operation == operation::max)
    return a < b ? b : a;
  else if constexpr (Operation == operation::min)
    return b < a ? b : a;
  else if constexpr (Operation == operation::logical_and)
    return T(a != T{} && b != T{});
  else if constexpr (Operation == operation::logical_or)
    return T(a != T{} || b != T{});
  else if constexpr (Operation == operation::bit_and)
    return T(a & b);
  else
    return T(a | b);
}

template <class T, operation Operation, bool IsReversed>
void run(std::byte *__restrict target, const std::byte *__restrict source, size_t count) noexcept {
  for (size_t i = 0; i < count; i++) {
    T a, b;
    std::memcpy(&a, target + i * sizeof a, sizeof a);
    std::memcpy(&b, source + i * sizeof b, sizeof b);
    a = IsReversed ? combined_value<T, Operation>(b, a) : combined_value<T, Operation>(a, b);
    std::memcpy(target + i * sizeof a, &a, sizeof a);
  }
}

template <class T, bool IsReversed>
combine_run runner_for(operation op) noexcept {
  switch (op) {
    case operation::sum:
      return run<T, operation::sum, IsReversed>;
    case operation::product:
      return run<T, operation::product, IsReversed>;
    case operation::max:
      return run<T, operation::max, IsReversed>;
    case operation::min:
      return run<T, operation::min, IsReversed>;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case operation::logical_and:
        return run<T, operation::logical_and, IsReversed>;
      case operation::logical_or:
        return run<T, operation::logical_or, IsReversed>;
      case operation::bit_and:
        return run<T, operation::bit_and, IsReversed>;
      default:
        return run<T, operation::bit_or, IsReversed>;
    }
  }
  return nullptr;
}

}  // namespace

reduction reduction_for(operation op, int type) noexcept {
  uint32_t const id = (uint32_t(type) & 0xffff) | uint32_t(op) << 16;
  auto const make = [&]<class T>(T) {
    return reduction{runner_for<T, false>(op), runner_for<T, true>(op), sizeof(T), id};
  };
  switch (type) {
    case ARMCI_INT:
      return make(int{});
    case ARMCI_LONG:
      return make(long{});
    case ARMCI_LONG_LONG:
      return make(0LL);
    case ARMCI_FLOAT:
      return make(float{});
    default:
      return make(double{});
  }
}

}  // namespace tanada::comex::armci
