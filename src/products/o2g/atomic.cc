// Atomic operations on elements of local memory, by type and operation.

#include "products/o2g/atomic.hpp"

#include <array>
#include <complex>
#include <concepts>
#include <cstring>
#include <type_traits>

namespace tanada::o2g {

namespace {

template <class T>
struct is_complex : std::false_type {};
template <class T>
struct is_complex<std::complex<T>> : std::true_type {};

// Integers are added and multiplied as unsigned 64-bit numbers, so that overflow wraps around.
template <class T>
using wide = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;

template <class T>
concept ordered = std::is_arithmetic_v<T>;

// The numbers of types and operations are checked against the counts before they are converted.
static_assert(size_t(atomic_type::f_long_complex) + 1 == atomic_type_count);
static_assert(size_t(atomic_operation::masked_swap) + 1 == atomic_operation_count);
// All operations from compare_swap on have a second operand (needs_compared()).
static_assert(atomic_operation::compare_swap > atomic_operation::write);
static_assert(atomic_size_max % sizeof(std::complex<long double>) == 0);

template <class T>
T swap_if(bool condition, T old, T operand) {
  return condition ? operand : old;
}

// The result of the operations that compare by order.
template <ordered T>
T ordered_result_of(atomic_operation operation, T old, T operand, T compared) {
  switch (operation) {
    case atomic_operation::min:
      return swap_if(operand < old, old, operand);
    case atomic_operation::max:
      return swap_if(operand > old, old, operand);
    case atomic_operation::compare_swap_less_equal:
      return swap_if(compared <= old, old, operand);
    case atomic_operation::compare_swap_less:
      return swap_if(compared < old, old, operand);
    case atomic_operation::compare_swap_greater_equal:
      return swap_if(compared >= old, old, operand);
    case atomic_operation::compare_swap_greater:
      return swap_if(compared > old, old, operand);
    default:
      return old;
  }
}

// The result of the operations on bits.
template <std::integral T>
T bitwise_result_of(atomic_operation operation, T old, T operand, T compared) {
  switch (operation) {
    case atomic_operation::bit_or:
      return T(old | operand);
    case atomic_operation::bit_and:
      return T(old & operand);
    case atomic_operation::bit_xor:
      return T(old ^ operand);
    case atomic_operation::masked_swap:
      return T((operand & compared) | (old & T(~compared)));
    default:
      return old;
  }
}

bool needs_bits(atomic_operation operation) {
  return operation == atomic_operation::bit_or || operation == atomic_operation::bit_and ||
         operation == atomic_operation::bit_xor || operation == atomic_operation::masked_swap;
}

// Returns the value after the operation, which is `old` if the operation stores nothing.
template <class T>
T result_of(atomic_operation operation, T old, T operand, T compared) {
  switch (operation) {
    case atomic_operation::sum:
      return T(wide<T>(old) + wide<T>(operand));
    case atomic_operation::product:
      return T(wide<T>(old) * wide<T>(operand));
    case atomic_operation::logical_or:
      return T(old != T{} || operand != T{});
    case atomic_operation::logical_and:
      return T(old != T{} && operand != T{});
    case atomic_operation::logical_xor:
      return T((old != T{}) != (operand != T{}));
    case atomic_operation::read:
      return old;
    case atomic_operation::write:
      return operand;
    case atomic_operation::compare_swap:
      return swap_if(compared == old, old, operand);
    case atomic_operation::compare_swap_unequal:
      return swap_if(compared != old, old, operand);
    default:
      break;
  }
  if constexpr (std::integral<T>)
    if (needs_bits(operation))
      return bitwise_result_of(operation, old, operand, compared);
  if constexpr (ordered<T>)
    return ordered_result_of(operation, old, operand, compared);
  else
    return old;
}

template <class T>
T load(std::span<const std::byte> values, size_t index) {
  T value{};
  if (!values.empty())
    std::memcpy(&value, values.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void apply(const atomic_arguments &arguments, T *target, size_t count) {
  for (size_t i = 0; i < count; i++) {
    T const operand = load<T>(arguments.operands, i);
    T const compared = load<T>(arguments.compared, i);
    T old;
    if constexpr (sizeof(T) <= 8 && !is_complex<T>::value) {
      // A compare-and-swap loop makes every operation atomic also with respect to the target's
      // processor.
      __atomic_load(&target[i], &old, __ATOMIC_ACQUIRE);
      for (;;) {
        T stored = result_of(arguments.operation, old, operand, compared);
        if (arguments.operation == atomic_operation::read)
          break;
        if (__atomic_compare_exchange(
                &target[i], &old, &stored, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
          break;
      }
    } else {
      old = target[i];
      target[i] = result_of(arguments.operation, old, operand, compared);
    }
    if (!arguments.fetched.empty())
      std::memcpy(arguments.fetched.data() + i * sizeof(T), &old, sizeof(T));
  }
}

// Calls function.template operator()<T>() with the C++ type T of `type`.
template <class Function>
auto with_type(atomic_type type, Function function) {
  switch (type) {
    case atomic_type::i8:
      return function.template operator()<int8_t>();
    case atomic_type::u8:
      return function.template operator()<uint8_t>();
    case atomic_type::i16:
      return function.template operator()<int16_t>();
    case atomic_type::u16:
      return function.template operator()<uint16_t>();
    case atomic_type::i32:
      return function.template operator()<int32_t>();
    case atomic_type::u32:
      return function.template operator()<uint32_t>();
    case atomic_type::i64:
      return function.template operator()<int64_t>();
    case atomic_type::u64:
      return function.template operator()<uint64_t>();
    case atomic_type::f32:
      return function.template operator()<float>();
    case atomic_type::f64:
      return function.template operator()<double>();
    case atomic_type::f32_complex:
      return function.template operator()<std::complex<float>>();
    case atomic_type::f64_complex:
      return function.template operator()<std::complex<double>>();
    case atomic_type::f_long:
      return function.template operator()<long double>();
    case atomic_type::f_long_complex:
      break;
  }
  return function.template operator()<std::complex<long double>>();
}

}  // namespace

size_t size_of(atomic_type type) noexcept {
  return with_type(type, []<class T>() { return sizeof(T); });
}

bool needs_compared(atomic_operation operation) noexcept {
  return operation >= atomic_operation::compare_swap;
}

bool is_supported(atomic_type type, atomic_operation operation) noexcept {
  bool const needs_order = operation == atomic_operation::min ||
                           operation == atomic_operation::max ||
                           (operation >= atomic_operation::compare_swap_less_equal &&
                            operation <= atomic_operation::compare_swap_greater);
  return with_type(type, [&]<class T>() {
    return (!needs_order || ordered<T>) && (!needs_bits(operation) || std::integral<T>);
  });
}

status atomic_apply(const atomic_arguments &arguments, std::byte *target, size_t count) {
  bool const is_read = arguments.operation == atomic_operation::read;
  return with_type(arguments.type, [&]<class T>() {
    size_t const size = count * sizeof(T);
    bool const fits =
        arguments.operands.size() == (is_read ? 0 : size) &&
        arguments.compared.size() == (needs_compared(arguments.operation) ? size : 0) &&
        (arguments.fetched.empty() || arguments.fetched.size() == size);
    if (!fits || !is_supported(arguments.type, arguments.operation))
      return status::invalid;
    if (reinterpret_cast<uintptr_t>(target) % alignof(T) != 0)
      return status::fault;
    apply<T>(arguments, reinterpret_cast<T *>(target), count);
    return status::ok;
  });
}

}  // namespace tanada::o2g
